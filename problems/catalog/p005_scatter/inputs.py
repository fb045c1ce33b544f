"""Arguments of one rank for one call."""

from problems.families.alike_matrices import maybe_alike
from problems.inputs.copied_values import copied
from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`tensor`: the stack (W, M, N) on rank `src`, a matrix (M, N) elsewhere; `src`: any rank, the same for all."""
    src = source(call)
    shape = ("W", "M", "N") if call.rank == src else ("M", "N")
    return {"tensor": copied(call, "tensor", maybe_alike(call, "tensor", call.normal("tensor", shape))), "src": src}


def source(call: Call) -> int:
    """Any rank; where one rank alone has values, that one."""
    if call.setting("values", None) == "one_rank":
        return owner(call)
    return int(call.integers("src", (1,), low=0, high=call.world_size, shared=True))
