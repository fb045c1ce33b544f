"""The expected outputs, by the inverse transform of the whole spectra in double precision."""

import torch
from torch import Tensor

from problems.catalog.p060_physicsnemo_distributed_irfft.inputs import make_inputs
from problems.inputs.values import Call

_BATCH = 16
"""Spectra transformed at a time: 16 of 720 x 721 take 0.13 GB in complex128."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, C, H, L/W) float64: the rank's columns of the fields."""
    size, norm = call.shape(("H", "L")), make_inputs(call)["norm"]
    columns = slice(call.rank * call.dims["Ll"], (call.rank + 1) * call.dims["Ll"])
    rows = [make_inputs(call.at_rank(rank))["x"].flatten(0, 1) for rank in range(call.world_size)]
    parts = []
    for start in range(0, rows[0].shape[0], _BATCH):
        spectrum = torch.cat([part[start : start + _BATCH] for part in rows], dim=-2).to(torch.complex128)
        parts.append(torch.fft.irfft2(spectrum, s=size, norm=norm)[..., columns].clone())
    return (torch.cat(parts).view(call.shape(("B", "C", "H", "Ll"))),)
