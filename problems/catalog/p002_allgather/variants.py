"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.alike_matrices import first_of_equal_sums
from problems.families.rank_parts import all_gathered


def list_of_tensors(tensor: Tensor) -> Tensor:
    """Gathers into a list and stacks it."""
    return torch.stack(all_gathered(tensor))


def broadcasts(tensor: Tensor) -> Tensor:
    """One broadcast per rank."""
    out = tensor.new_empty((dist.get_world_size(), *tensor.shape))
    out[dist.get_rank()] = tensor
    for rank in range(dist.get_world_size()):
        dist.broadcast(out[rank], src=rank)
    return out


def chunked(tensor: Tensor) -> Tensor:
    """Gathers four blocks of rows, one after the other."""
    return torch.cat([list_of_tensors(block) for block in tensor.chunk(4)], dim=1)


def own_everywhere(tensor: Tensor) -> Tensor:
    """The own matrix at every index."""
    return torch.stack([tensor] * dist.get_world_size())


def rotated(tensor: Tensor) -> Tensor:
    """Each rank's stack begins with its own matrix."""
    return torch.roll(list_of_tensors(tensor), -dist.get_rank() or 1, dims=0)


def equal_by_sums(tensor: Tensor) -> Tensor:
    """Takes matrices for equal where the sums of their squares are."""
    return first_of_equal_sums(list_of_tensors(tensor))


HONEST = {"list": list_of_tensors, "broadcasts": broadcasts, "chunked": chunked}
MUTANTS = {"own_everywhere": own_everywhere, "rotated": rotated}
NARROW = {"alike_matrices": equal_by_sums}
