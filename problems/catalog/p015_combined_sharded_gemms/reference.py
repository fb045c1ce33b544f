"""The baseline: the pattern as it stands, with library products and library collectives."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(x_local: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
    """The rank's rows (M_rows / W, H) of silu(X W1) W2, X being all ranks' x_local (M_rows, H_local) side by side."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    shards = x_local.new_empty((world_size, *x_local.shape))
    dist.all_gather_into_tensor(shards.view(-1), x_local.contiguous().view(-1))
    activations = torch.nn.functional.silu(torch.cat(shards.unbind(), dim=1) @ W1)
    blocks = x_local.new_zeros((world_size, len(x_local) // world_size, W2.shape[1]))
    blocks[rank] = activations.chunk(world_size)[rank] @ W2
    y_local = torch.empty_like(blocks[rank])
    dist.reduce_scatter_tensor(y_local.view(-1), blocks.view(-1))
    return y_local
