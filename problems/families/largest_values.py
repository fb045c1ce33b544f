"""Largest finite values among the special ones, for problems that only move tensors: 65 and 67."""

import torch
from torch import Tensor

from problems.inputs.values import Call

_SHARE = 1 / 16


def with_largest(call: Call, name: str, tensor: Tensor) -> Tensor:
    """`tensor`; in the regime of special values, some are the largest finite ones of its dtype, of either sign."""
    if call.setting("values", None) != "special":
        return tensor
    drawn = call.uniform(f"{name}: which are largest", tensor.shape, dtype=torch.float32)
    most = torch.finfo(tensor.dtype).max
    return tensor.masked_fill(drawn < _SHARE, most).masked_fill(drawn >= 1 - _SHARE, -most)
