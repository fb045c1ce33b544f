"""The expected outputs, by a transform of the whole fields in double precision."""

import torch
from torch import Tensor

from problems.catalog.p059_physicsnemo_distributed_rfft.inputs import make_inputs
from problems.inputs.values import Call

_BATCH = 16
"""Fields transformed at a time: 16 fields of 720 x 1440 take 0.4 GB in complex128."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, H/W, L//2 + 1) complex128: the rank's rows of the spectrum."""
    columns = [make_inputs(call.at_rank(rank))["x"] for rank in range(call.world_size)]
    norm = make_inputs(call)["norm"]
    rows = slice(call.rank * call.dims["Hl"], (call.rank + 1) * call.dims["Hl"])
    parts = []
    for start in range(0, call.dims["B"], _BATCH):
        field = torch.cat([part[start : start + _BATCH] for part in columns], dim=2).double()
        # rfft2 halves the last axis of `dim`, the sharded one, and transforms the other in full.
        parts.append(torch.fft.rfft2(field, dim=(1, 2), norm=norm)[:, rows].clone())
    return (torch.cat(parts),)
