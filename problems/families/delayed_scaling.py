"""Rounding to float8 e4m3 under one scale per tensor that comes from a history of largest magnitudes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from problems.inputs.regime_values import in_regime
from problems.inputs.values import Call

ENTRIES = 16

_FEW = 3
"""Where a rank has fewer sums than that, one that cancels is not measured beside others."""


@dataclass(frozen=True)
class Rounded:
    """A tensor after e4m3 (float64, before any further rounding) and the history with its own maximum appended."""

    values: Tensor
    history: Tensor


def draw(call: Call, name: str, symbols: tuple[str, ...]) -> Tensor:
    """Values in the run's dtype with moderate tails and a scale of the rank's own near 1, so that none drowns another.

    Tails are long enough for one int8 scale to lose more than e4m3 does. The largest magnitude makes no ties.
    """
    scale = call.uniform("scale", (1,), low=-0.5, high=0.5, dtype=torch.float32).exp2_()
    values = call.normal(name, symbols, dtype=torch.float32).mul_(call.scales("tails", symbols, spread=0.6))
    # A regime's scale is no power of two, so it comes before ties are looked for.
    drawn = values.mul_(scale).to(call.dtype) * call.setting("scale", 1.0)
    magnitudes = drawn.abs()
    without_ties = torch.where(magnitudes == magnitudes.max(), _without_ties(drawn), drawn)
    if call.setting("history", "") == "outlier":
        without_ties = _not_like_an_outlier(without_ties)
    if call.dims["P"] < _FEW:
        without_ties = without_ties.abs()
    return in_regime(call, name, without_ties)


def _without_ties(values: Tensor) -> Tensor:
    """`values` with the last bit of a bfloat16 significand set; other dtypes as they are.

    A quotient x / (largest / 448) lies half-way between two codes where 7 x 2^i = m largest with m odd and 17 to 31.
    Both are bfloat16, of 8 bits: an odd significand of `largest` leaves no such x. An even one leaves up to one element
    in a hundred, which division and the product with a reciprocal round to different codes.
    """
    if values.dtype != torch.bfloat16:
        return values
    return (values.view(torch.int16) | 1).view(torch.bfloat16)


_OUTLIER = 129 / 128
"""The significand of a regime's old outlier, odd and no multiple of 7; 2^14 to 2^17 lie between it and the tensor."""


def _not_like_an_outlier(values: Tensor) -> Tensor:
    """bfloat16 `values`, none of which has the significand of the outlier: by that argument only such make ties."""
    bits = values.view(torch.int16)
    return torch.where(bits & 127 == 1, bits | 2, bits).view(torch.bfloat16)


def histories(call: Call, tensor: Tensor) -> Tensor:
    """A rank's history (16, bfloat16) to go with `tensor`, all entries different.

    The oldest entry, which drops out, is the largest; on every second rank an entry that stays exceeds the maximum of
    `tensor` and decides the scale, on the others all that stay are smaller. Which half it is changes from call to call.
    Before the first step, and where all of `tensor` is zero, all entries are zero, but in a regime that keeps them.
    """
    largest = tensor.float().abs().max()
    if call.setting("history", "") == "kept":
        largest = torch.ones_like(largest)
    if call.setting("history", "") == "zero" or not largest:
        return torch.zeros(call.shape(("history",)), dtype=torch.bfloat16, device=call.device)
    factors = call.uniform("amax_history", ("history",), low=0.3, high=0.85, dtype=torch.float32)
    coin = int(call.integers("coin", (), low=0, high=2, shared=True))
    if (call.rank + coin) % 2:
        place = call.integers("decisive", (), low=1, high=ENTRIES)
        factors[place] = call.uniform("decisive factor", (), low=1.2, high=1.8, dtype=torch.float32)
    factors[0] = call.uniform("oldest", (), low=2.1, high=3.4, dtype=torch.float32)
    history = _without_ties((factors * largest).bfloat16())
    if call.setting("history", "") == "outlier":
        history[call.integers("regime's outlier", (), low=1, high=ENTRIES)] = (
            largest.log2().floor() + call.setting("outlier", 14)
        ).exp2() * _OUTLIER
    return history


def rounded(tensor: Tensor, history: Tensor) -> Rounded:
    """`tensor` through e4m3 as the cards have it; the quotient is float32, because its rounding decides the codes."""
    largest = tensor.abs().max().to(history.dtype)
    updated = torch.cat([history[1:], largest.view(1)])
    scale = updated.max().clamp(min=1e-12).float() / 448
    codes = (tensor.float() / scale).to(torch.float8_e4m3fn)
    return Rounded(values=codes.double() * scale.double(), history=updated)
