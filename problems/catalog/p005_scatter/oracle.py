"""The expected outputs: a copy, bit by bit."""

from torch import Tensor

from problems.catalog.p005_scatter.inputs import make_inputs
from problems.catalog.p005_scatter.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.copies import comparing_bits


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): the rank's matrix of the source's stack."""
    src = make_inputs(call)["src"]
    return (make_inputs(call.at_rank(src))["tensor"][call.rank],)


compare = comparing_bits(PROBLEM)
