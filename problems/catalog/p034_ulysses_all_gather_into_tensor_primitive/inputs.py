"""Arguments of one rank for one call."""

from problems.families.alike_matrices import maybe_alike
from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (M, N) and no group."""
    x = maybe_alike(call, "x", call.normal("x", ("M", "N")))
    if (ends := call.setting("ends", None)) is not None:
        x[0] = x[-1] = call.normal("regime's ends", ("N",), shared=True) if ends == "same" else 0.0
    return {"x": copied(call, "x", x), "group": None}
