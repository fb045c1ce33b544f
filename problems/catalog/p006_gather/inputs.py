"""Arguments of one rank for one call."""

from problems.families.alike_matrices import maybe_alike
from problems.inputs.copied_values import copied
from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`tensor` (M, N): standard normal, the rank's own; `dst`: any rank, the same for all."""
    return {
        "tensor": copied(call, "tensor", maybe_alike(call, "tensor", call.normal("tensor", ("M", "N")))),
        "dst": destination(call),
    }


def destination(call: Call) -> int:
    """Any rank; where one rank alone has values, the one after it."""
    if call.setting("values", None) == "one_rank":
        return (owner(call) + 1) % call.world_size
    return int(call.integers("dst", (1,), low=0, high=call.world_size, shared=True))
