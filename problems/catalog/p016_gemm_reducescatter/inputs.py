"""Arguments of one rank for one call."""

import torch

from problems.families.zero_edges import in_edges
from problems.inputs.regime_values import at_end, columns_picked, in_regime, is_exact, magnitude, unless_zero
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`A_local` (M, K_local) and `B_local` (K_local, N), different on every rank.

    Columns of B differ widely in scale: a row of a partial product then has elements that one 8-bit scale cannot hold.
    """
    scale = call.uniform("scale", (1, 1), low=-1, high=1, dtype=torch.float32).exp2_()
    left = call.normal("A_local", ("M", "K_local"), dtype=torch.float32).mul_(scale)
    right = call.normal("B_local", ("K_local", "N"), dtype=torch.float32).mul_(call.scales("columns", (1, "N")))
    right.mul_(magnitude(call))
    left = in_regime(call, "A_local", left.to(call.dtype))
    right = columns_picked(call, right) if is_exact(call) else unless_zero(call, right.to(call.dtype))
    left, right = at_end(call, left), at_end(call, right)
    return {"A_local": in_edges(call, left, row_parts=call.world_size), "B_local": in_edges(call, right)}
