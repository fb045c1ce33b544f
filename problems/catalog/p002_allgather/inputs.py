"""Arguments of one rank for one call."""

from problems.families.alike_matrices import maybe_alike
from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`tensor` (M, N): standard normal, the rank's own."""
    return {"tensor": copied(call, "tensor", maybe_alike(call, "tensor", call.normal("tensor", ("M", "N"))))}
