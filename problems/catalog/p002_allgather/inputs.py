"""Arguments of one rank for one call."""

from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`tensor` (M, N): standard normal, the rank's own."""
    return {"tensor": copied(call, "tensor", call.normal("tensor", ("M", "N")))}
