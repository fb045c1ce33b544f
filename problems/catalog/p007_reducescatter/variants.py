"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import added_backwards


def _exchange(tensor: Tensor) -> Tensor:
    """The W contributions (W, M, N) to the own row block, in rank order."""
    received = torch.empty_like(tensor)
    dist.all_to_all_single(received, tensor.contiguous())
    return received.view(dist.get_world_size(), -1, *tensor.shape[1:])


def in_float32(tensor: Tensor) -> Tensor:
    """Exchanges the run's dtype, sums in float32 and rounds once."""
    return _exchange(tensor).float().sum(dim=0).to(tensor.dtype)


def backwards(tensor: Tensor) -> Tensor:
    """Adds in the run's dtype, last rank first."""
    parts = list(_exchange(tensor))
    return added_backwards(parts)


def all_reduced(tensor: Tensor) -> Tensor:
    """Reduces everything everywhere and keeps the own block."""
    total = tensor.clone()
    dist.all_reduce(total)
    return total.chunk(dist.get_world_size())[dist.get_rank()].clone()


def next_block(tensor: Tensor) -> Tensor:
    """The row block of the next rank."""
    total = tensor.clone()
    dist.all_reduce(total)
    world_size = dist.get_world_size()
    return total.chunk(world_size)[(dist.get_rank() + 1) % world_size].clone()


def interleaved(tensor: Tensor) -> Tensor:
    """Rows r, r + W, r + 2W, ... in place of a block of neighbours."""
    total = tensor.clone()
    dist.all_reduce(total)
    return total[dist.get_rank() :: dist.get_world_size()].clone()


HONEST = {"float32": in_float32, "backwards": backwards, "all_reduced": all_reduced}
MUTANTS = {"next_block": next_block, "interleaved": interleaved}
