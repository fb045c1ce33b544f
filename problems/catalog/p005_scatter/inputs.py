"""Arguments of one rank for one call."""

from problems.regime_values import in_regime
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`tensor`: the stack (W, M, N) on rank `src`, a matrix (M, N) elsewhere; `src`: any rank, the same for all."""
    src = int(call.integers("src", (1,), low=0, high=call.world_size, shared=True))
    shape = ("W", "M", "N") if call.rank == src else ("M", "N")
    return {"tensor": in_regime(call, "tensor", call.normal("tensor", shape)), "src": src}
