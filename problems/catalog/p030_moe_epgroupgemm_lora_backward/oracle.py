"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p030_moe_epgroupgemm_lora_backward.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """The three sums, once as returned and once as written."""
    totals: list[Tensor] = []
    for rank in range(call.world_size):
        *gradients, _ = make_inputs(call.at_rank(rank)).values()
        wide = [gradient.double() for gradient in gradients]
        totals = [total + part for total, part in zip(totals, wide, strict=True)] if totals else wide
    return (*totals, *(torch.clone(total) for total in totals))
