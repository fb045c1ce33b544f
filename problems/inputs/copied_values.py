"""How the values of a tensor look in each of the regimes of problems that only move them."""

import torch
from torch import Tensor

from problems.inputs.regime_values import in_regime
from problems.inputs.values import Call

FURTHEST = 100
"""Largest power of two, either way, by which a value differs from one in a usual call: bfloat16 reaches 126."""


def copied(call: Call, name: str, tensor: Tensor) -> Tensor:
    """`tensor`, drawn by the rank as `name`, as the call's regime has its values; the very tensor in a usual call.

    Beside the regimes of `problems.inputs.regime_values` there is one in which each value has a magnitude of its own,
    up to one that all ranks share. Its sign and its significant bits stay. In another one neighbours cancel. In a third
    nearly all are zero.
    """
    if call.setting("neighbours", None) is not None:
        return _cancelling(tensor)
    if (kept := call.setting("kept", None)) is not None:
        return _nearly_zero(call, name, tensor, kept)
    if call.setting("magnitudes", None) is None:
        return in_regime(call, name, tensor)
    power = call.integers(f"{name}: magnitude", tensor.shape, low=-FURTHEST, high=FURTHEST + 1, dtype=torch.int32)
    most = call.integers("regime's largest magnitude", (), low=-FURTHEST, high=FURTHEST + 1, shared=True)
    return power.clamp(max=int(most)).float().exp2_().mul_(tensor).to(tensor.dtype)


def _nearly_zero(call: Call, name: str, tensor: Tensor, kept: str) -> Tensor:
    """Zeros with the signs of `tensor`; or plain zeros but for one value or all in the second half of each matrix.

    No look at the first elements meets those.
    """
    if kept == "none":
        return tensor * 0
    matrices = tensor.flatten(-2)
    count = matrices.shape[-1]
    place, half = torch.arange(count, device=call.device), count // 2
    one = call.integers(f"{name}: kept", (*matrices.shape[:-1], 1), low=half, high=count)
    return matrices.where(place == one if kept == "one" else place >= half, 0).view_as(tensor)


def _cancelling(tensor: Tensor) -> Tensor:
    """`tensor` in steps of 1/16, so that sums are exact, and every second value the negative of the one before.

    What is left over at the end of a row is zero, but not in rows of one.
    """
    even = tensor.shape[-1] // 2 * 2
    if even:
        tensor = tensor.float().mul_(16).round_().div_(16).to(tensor.dtype)
        tensor[..., 1:even:2] = -tensor[..., 0:even:2]
        tensor[..., even:] = 0
    return tensor
