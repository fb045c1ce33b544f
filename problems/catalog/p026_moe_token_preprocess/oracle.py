"""The expected outputs: integers."""

import torch
from torch import Tensor

from problems.catalog.p026_moe_token_preprocess.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`input_splits` (W), `output_splits` (W), and the counts per source and own expert (W, E/W), and their sum."""
    counts = torch.stack([_counts(call.at_rank(rank)) for rank in range(call.world_size)])
    own_experts = torch.arange(call.dims["E"], device=call.device).chunk(call.world_size)
    received = counts[:, own_experts[call.rank]]
    sent = torch.stack([counts[call.rank, experts].sum() for experts in own_experts])
    return sent, received.sum(dim=1), received, received.sum(dim=0)


def _counts(call: Call) -> Tensor:
    """How many slots of this rank's tokens name each expert."""
    choices = make_inputs(call)["expert_mask"].argmax(dim=0)
    return choices.flatten().bincount(minlength=call.dims["E"])
