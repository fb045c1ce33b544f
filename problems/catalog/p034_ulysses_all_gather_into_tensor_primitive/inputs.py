"""Arguments of one rank for one call."""

from problems.regime_values import in_regime
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (M, N) and no group."""
    return {"x": in_regime(call, "x", call.normal("x", ("M", "N"))), "group": None}
