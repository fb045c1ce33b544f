"""The expected outputs: a copy, bit by bit."""

from torch import Tensor

from problems.catalog.p003_broadcast.inputs import make_inputs
from problems.catalog.p003_broadcast.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.copies import comparing_bits


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): the source's matrix."""
    src = make_inputs(call)["src"]
    return (make_inputs(call.at_rank(src))["tensor"],)


compare = comparing_bits(PROBLEM)
