"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.alike_matrices import first_of_equal_sums
from problems.families.rank_parts import all_gathered, exchange


def point_to_point(tensor: Tensor) -> Tensor:
    """One send and one receive per peer."""
    me, world_size = dist.get_rank(), dist.get_world_size()
    tensor, out = tensor.contiguous(), torch.empty_like(tensor)
    out[me] = tensor[me]
    peers = [rank for rank in range(world_size) if rank != me]
    exchange(((tensor[peer], peer) for peer in peers), ((out[peer], peer) for peer in peers))
    return out


def gathered(tensor: Tensor) -> Tensor:
    """Gathers everything and picks the slices."""
    return torch.stack([part[dist.get_rank()] for part in all_gathered(tensor)])


def transposed_slices(tensor: Tensor) -> Tensor:
    """The slices that came from rank s are at index W - 1 - s."""
    return gathered(tensor).flip(0)


def own_slice_only(tensor: Tensor) -> Tensor:
    """Everything but the own slice is what was already here."""
    out = tensor.clone()
    out[dist.get_rank()] = tensor[dist.get_rank()]
    return out


def equal_by_sums(tensor: Tensor) -> Tensor:
    """Takes matrices for equal where the sums of their squares are."""
    return first_of_equal_sums(gathered(tensor))


HONEST = {"point_to_point": point_to_point, "gathered": gathered}
MUTANTS = {"transposed_slices": transposed_slices, "own_slice_only": own_slice_only}
NARROW = {"alike_matrices": equal_by_sums}
