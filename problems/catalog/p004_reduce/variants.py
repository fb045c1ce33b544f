"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import added_backwards


def in_float32(tensor: Tensor, dst: int = 0) -> Tensor:
    """Sums in float32 and rounds once; the other ranks return zeros."""
    out = tensor.to(torch.float32, copy=True)
    dist.reduce(out, dst)
    return out.to(tensor.dtype) if dist.get_rank() == dst else torch.zeros_like(tensor)


def gathered_and_summed_backwards(tensor: Tensor, dst: int = 0) -> Tensor:
    """The destination receives every matrix and adds them in the run's dtype, last rank first."""
    is_destination = dist.get_rank() == dst
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())] if is_destination else None
    dist.gather(tensor.contiguous(), parts, dst)
    if parts is None:
        return tensor.clone()
    return added_backwards(parts)


def chunked(tensor: Tensor, dst: int = 0) -> Tensor:
    """Reduces four blocks of rows, one after the other."""
    out = tensor.clone()
    for block in out.chunk(4):
        dist.reduce(block, dst)
    return out


def reduced_everywhere(tensor: Tensor, dst: int = 0) -> Tensor:
    """The sum on every rank: more than is asked."""
    del dst
    out = tensor.clone()
    dist.all_reduce(out)
    return out


def average(tensor: Tensor, dst: int = 0) -> Tensor:
    """The mean in place of the sum."""
    return reduced_everywhere(tensor, dst) / dist.get_world_size()


def next_destination(tensor: Tensor, dst: int = 0) -> Tensor:
    """The sum on the rank after the destination alone."""
    total = reduced_everywhere(tensor, dst)
    return total if dist.get_rank() == (dst + 1) % dist.get_world_size() else tensor.clone()


def own_left_out(tensor: Tensor, dst: int = 0) -> Tensor:
    """The destination forgets its own matrix."""
    return reduced_everywhere(torch.zeros_like(tensor) if dist.get_rank() == dst else tensor, dst)


HONEST = {
    "float32": in_float32,
    "backwards": gathered_and_summed_backwards,
    "chunked": chunked,
    "reduced_everywhere": reduced_everywhere,
}
MUTANTS = {"average": average, "next_destination": next_destination, "own_left_out": own_left_out}
