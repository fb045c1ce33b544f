"""The expected outputs, in float64."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from problems.catalog.p030_moe_epgroupgemm_lora_backward.inputs import make_inputs
from problems.catalog.p030_moe_epgroupgemm_lora_backward.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.checking import within_rounding_of
from problems.outputs.comparison import Comparison, compare_output


def expected(call: Call) -> tuple[Tensor, ...]:
    """The three sums, once as returned and once as written."""
    totals: list[Tensor] = []
    for rank in range(call.world_size):
        *gradients, _ = make_inputs(call.at_rank(rank)).values()
        wide = [gradient.double() for gradient in gradients]
        totals = [total + part for total, part in zip(totals, wide, strict=True)] if totals else wide
    return (*totals, *(torch.clone(total) for total in totals))


def addends(call: Call, index: int = 0) -> Iterator[Tensor]:
    """What every rank adds to the output number `index`: a gradient as it is."""
    for rank in range(call.world_size):
        yield list(make_inputs(call.at_rank(rank)).values())[index % 3]


def compare(call: Call, actual: Sequence[Tensor], expected: Sequence[Tensor]) -> tuple[Comparison, ...]:
    """By tolerance, and by the bound on sums."""
    found = []
    for index, (output, mine, right) in enumerate(zip(PROBLEM.outputs_in(call.regime), actual, expected, strict=True)):
        one = compare_output(output, mine, right)
        if one.passed and not output.tolerance.is_exact:
            one = within_rounding_of(call, partial(addends, index=index), one, mine, right, roundings=0)
        found.append(one)
    return tuple(found)
