"""Arguments of one rank for one call."""

import torch

from problems.families.zero_edges import in_edges
from problems.inputs.copied_values import copied
from problems.inputs.regime_values import columns_picked, in_regime, magnitude, picks, unless_zero
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`A` (M, K) and `B` (K, N_local), both different on every rank; columns of B differ widely in scale.

    The result's rows then hold large and small elements, as rows of logits do, which one 8-bit scale cannot serve.
    """
    right = call.normal("B", ("K", "N_local"), dtype=torch.float32).mul_(call.scales("columns", (1, "N_local")))
    right = columns_picked(call, right) if picks(call) else in_regime(call, "B", right.to(call.dtype))
    left = unless_zero(call, call.normal("A", ("M", "K")).mul_(magnitude(call)))
    left = copied(call, "A", left) if picks(call) else left
    return {"A": in_edges(call, left), "B": in_edges(call, right)}
