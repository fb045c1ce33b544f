"""The baseline: local sums of squares, one all-reduce of a float per row, then the normalisation."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(local_hidden_states: Tensor, local_weight: Tensor, variance_epsilon: float) -> Tensor:
    """The rank's shard (M, N) of the normalised rows, times its weights (N,)."""
    hidden = local_hidden_states.float()
    squares = hidden.square().sum(dim=-1, keepdim=True)
    dist.all_reduce(squares)
    variance = squares / (hidden.shape[-1] * dist.get_world_size())
    normalised = hidden * torch.rsqrt(variance + variance_epsilon)
    return local_weight * normalised.to(local_hidden_states.dtype)
