"""Rounding to float8 e4m3 under one scale per tensor that comes from a history of largest magnitudes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from problems.values import Call

ENTRIES = 16


@dataclass(frozen=True)
class Rounded:
    """A tensor after e4m3 (float64, before any further rounding) and the history with its own maximum appended."""

    values: Tensor
    history: Tensor


def histories(call: Call, tensor: Tensor) -> Tensor:
    """A rank's history (16, bfloat16) to go with `tensor`, all entries different.

    The oldest entry, which drops out, is the largest; on every second rank an entry that stays exceeds the maximum of
    `tensor` and decides the scale, on the others all that stay are smaller. Which half it is changes from call to call.
    """
    largest = tensor.float().abs().max()
    factors = call.uniform("amax_history", ("history",), low=0.3, high=0.85, dtype=torch.float32)
    coin = int(call.integers("coin", (), low=0, high=2, shared=True))
    if (call.rank + coin) % 2:
        place = call.integers("decisive", (), low=1, high=ENTRIES)
        factors[place] = call.uniform("decisive factor", (), low=1.2, high=1.8, dtype=torch.float32)
    factors[0] = call.uniform("oldest", (), low=2.1, high=3.4, dtype=torch.float32)
    return (factors * largest).bfloat16()


def rounded(tensor: Tensor, history: Tensor) -> Rounded:
    """`tensor` through e4m3 as the cards have it; the quotient is float32, because its rounding decides the codes."""
    largest = tensor.abs().max().to(history.dtype)
    updated = torch.cat([history[1:], largest.view(1)])
    scale = updated.max().clamp(min=1e-12).float() / 448
    codes = (tensor.float() / scale).to(torch.float8_e4m3fn)
    return Rounded(values=codes.double() * scale.double(), history=updated)
