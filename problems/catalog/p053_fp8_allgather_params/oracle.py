"""The expected outputs: the codes as the card has them, their values unrounded."""

import torch
from torch import Tensor

from problems.catalog.p053_fp8_allgather_params.inputs import make_inputs
from problems.families.delayed_scaling import rounded
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`full` (W*P) and `updated_hist` (16)."""
    parts = [rounded(*make_inputs(call.at_rank(rank)).values()) for rank in range(call.world_size)]
    return torch.cat([part.values for part in parts]), parts[call.rank].history
