"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.alike_matrices import first_of_equal_sums
from problems.families.rank_parts import all_gathered


def gathered(tensor: Tensor, src: int = 0) -> Tensor:
    """Gathers every matrix and keeps the source's."""
    return all_gathered(tensor)[src]


def chain(tensor: Tensor, src: int = 0) -> Tensor:
    """Hands four blocks of rows from neighbour to neighbour, beginning at the source."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    place = (rank - src) % world_size
    out = tensor.clone() if place == 0 else torch.empty_like(tensor)
    for block in out.chunk(4):
        if place > 0:
            dist.recv(block, (rank - 1) % world_size)
        if place < world_size - 1:
            dist.send(block, (rank + 1) % world_size)
    return out


def next_source(tensor: Tensor, src: int = 0) -> Tensor:
    """The matrix of the rank after the source."""
    return gathered(tensor, (src + 1) % dist.get_world_size())


def half(tensor: Tensor, src: int = 0) -> Tensor:
    """Only the first half of the rows is sent."""
    out = tensor.clone()
    dist.broadcast(out[: len(out) // 2], src)
    return out


def equal_by_sums(tensor: Tensor, src: int = 0) -> Tensor:
    """Takes matrices for equal where the sums of their squares are."""
    return first_of_equal_sums(torch.stack(all_gathered(tensor)))[src].clone()


HONEST = {"gathered": gathered, "chain": chain}
MUTANTS = {"next_source": next_source, "half": half}
NARROW = {"alike_matrices": equal_by_sums}
