"""Arguments of one rank for one call."""

import torch

from problems.families.zero_edges import in_edges
from problems.inputs.regime_values import at_end, columns_picked, in_regime, is_exact, magnitude, unless_zero
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`A_local` (M, K) and `B_local` (K, N), different on every rank.

    Columns of B differ widely in scale, as the outlier channels of a language model do: the products then have
    elements that one 8-bit scale per row cannot hold.
    """
    scale = call.uniform("scale", (1, 1), low=-1, high=1, dtype=torch.float32).exp2_()
    left = call.normal("A_local", ("M", "K"), dtype=torch.float32).mul_(scale)
    right = call.normal("B_local", ("K", "N"), dtype=torch.float32).mul_(call.scales("columns", (1, "N"), spread=0.9))
    right.mul_(magnitude(call))
    left = in_regime(call, "A_local", left.to(call.dtype))
    if is_exact(call):
        # Beside what adds up to zero, a scale that serves all of a product loses the rest of it.
        left[:, 0] = {0: 2.0**38, 1: -(2.0**38)}.get(call.rank, 0.0)
    right = columns_picked(call, right) if is_exact(call) else unless_zero(call, right.to(call.dtype))
    return {"A_local": in_edges(call, at_end(call, left)), "B_local": in_edges(call, at_end(call, right))}
