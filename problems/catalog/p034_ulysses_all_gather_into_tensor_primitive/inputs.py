"""Arguments of one rank for one call."""

from math import prod

import torch
from torch import Tensor

from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (M, N) and no group."""
    x = call.normal("x", ("M", "N")) if call.setting("elements", None) is None else _cancelling(call)
    if (ends := call.setting("ends", None)) is not None:
        x[0] = x[-1] = call.normal("regime's ends", ("N",), shared=True) if ends == "same" else 0.0
    return {"x": copied(call, "x", x), "group": None}


def _cancelling(call: Call) -> Tensor:
    """`x` whose elements each have their negative, and are another rank's, moved on by one place for every rank.

    They are multiples of 1/16, so that sums are exact in any order and none tells one share from another.
    """
    shape = call.shape(("M", "N"))
    half, rest = divmod(prod(shape), 2)
    drawn = call.normal("regime's elements", (half,), dtype=torch.float32, shared=True).mul_(16).round_().div_(16)
    elements = torch.cat([drawn, drawn.new_zeros(rest), -drawn]).to(call.dtype)
    return elements.roll(call.rank).view(shape)
