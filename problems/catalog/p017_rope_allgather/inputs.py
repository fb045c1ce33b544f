"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call

THETA = 500_000.0
"""Base of the rotary frequencies, as in Llama 3."""


def make_inputs(call: Call) -> Arguments:
    """`q_local`, `k_local` (B, S_local, heads, d) and the cosines and sines (B, S_local, d) of the rank's positions."""
    angles = _angles(call)
    shape = ("B", "S_local", "heads", "d")
    return {
        **{name: _values(call, name, call.long_tailed(name, shape)) for name in ("q_local", "k_local")},
        "cos_local": angles.cos().to(call.dtype),
        "sin_local": angles.sin().to(call.dtype),
    }


def _values(call: Call, name: str, tensor: Tensor) -> Tensor:
    """`tensor` as the call's regime has it; one of zeros may leave one of the two as usual."""
    return in_regime(call, name, tensor) if call.setting("zero", "both") in ("both", name) else tensor


def _angles(call: Call) -> Tensor:
    """Position times frequency plus a phase, float64 (B, S_local, d).

    Every row of the batch begins at an offset of its own. The phases make the two halves of d independent, as the
    interface allows, and every call's angles new, at low frequencies too.
    """
    local, width = call.dims["S_local"], call.dims["d"]
    start = call.integers("offset", ("B", 1), low=0, high=4096, shared=True) + call.rank * local
    if call.setting("angles", "") == "zero":
        return torch.zeros(call.shape(("B", "S_local", "d")), dtype=torch.float64, device=call.device)
    positions = start + torch.arange(local, device=call.device)
    half = torch.arange(width, device=call.device) % (width // 2)
    frequencies = THETA ** (-2 * half.double() / width)
    phases = call.uniform("phases", ("d",), high=2 * torch.pi, dtype=torch.float64, shared=True)
    angles = positions[..., None] * frequencies + phases
    if call.setting("first_position", "usual") == "still":
        angles[:, 0] = 0.0
    if call.setting("first_position", None) is not None:
        angles[-1] = angles[0]
    return angles
