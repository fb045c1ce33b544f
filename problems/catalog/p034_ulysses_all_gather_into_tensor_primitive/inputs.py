"""Arguments of one rank for one call."""

from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (M, N) and no group."""
    return {"x": copied(call, "x", call.normal("x", ("M", "N"))), "group": None}
