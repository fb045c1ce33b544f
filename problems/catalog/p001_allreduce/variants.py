"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import added_backwards, all_gathered


def in_float32(tensor: Tensor) -> Tensor:
    """Sums in float32 and rounds once."""
    out = tensor.to(torch.float32, copy=True)
    dist.all_reduce(out)
    return out.to(tensor.dtype)


def gathered_and_summed_backwards(tensor: Tensor) -> Tensor:
    """Gathers every matrix and adds them in the run's dtype, last rank first."""
    return added_backwards(all_gathered(tensor))


def chunked(tensor: Tensor) -> Tensor:
    """Reduces four blocks of rows, one after the other."""
    out = tensor.clone()
    for block in out.chunk(4):
        dist.all_reduce(block)
    return out


def average(tensor: Tensor) -> Tensor:
    """The mean in place of the sum."""
    out = tensor.clone()
    dist.all_reduce(out)
    return out / dist.get_world_size()


def own_times_world_size(tensor: Tensor) -> Tensor:
    """W times the own matrix: right only where all ranks hold the same."""
    return tensor * dist.get_world_size()


HONEST = {"float32": in_float32, "backwards": gathered_and_summed_backwards, "chunked": chunked}
MUTANTS = {"average": average, "own_times_world_size": own_times_world_size}
