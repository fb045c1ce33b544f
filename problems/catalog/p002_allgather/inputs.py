"""Arguments of one rank for one call."""

from problems.regime_values import in_regime
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`tensor` (M, N): standard normal, the rank's own."""
    return {"tensor": in_regime(call, "tensor", call.normal("tensor", ("M", "N")))}
