"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.alike_matrices import first_of_equal_sums
from problems.families.rank_parts import all_gathered


def _stack(tensor: Tensor) -> Tensor:
    """Every rank's matrix, on every rank."""
    return torch.stack(all_gathered(tensor))


def gathered_everywhere(tensor: Tensor, dst: int = 0) -> Tensor:
    """Every rank receives the stack; those that are not asked for it return a copy of their own matrix."""
    stack = _stack(tensor)
    return stack if dist.get_rank() == dst else tensor.clone()


def point_to_point(tensor: Tensor, dst: int = 0) -> Tensor:
    """The destination receives from one rank after the other, the last first."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank != dst:
        dist.send(tensor.contiguous(), dst)
        return tensor
    out = tensor.new_empty((world_size, *tensor.shape))
    out[rank] = tensor
    for peer in reversed(range(world_size)):
        if peer != rank:
            dist.recv(out[peer], peer)
    return out


def reversed_order(tensor: Tensor, dst: int = 0) -> Tensor:
    """The last rank's matrix first."""
    stack = _stack(tensor)
    return stack.flip(0) if dist.get_rank() == dst else tensor


def stack_on_every_rank(tensor: Tensor, dst: int = 0) -> Tensor:
    """The stack where nobody asked for it."""
    del dst
    return _stack(tensor)


def own_everywhere(tensor: Tensor, dst: int = 0) -> Tensor:
    """The destination's own matrix at every index."""
    return torch.stack([tensor] * dist.get_world_size()) if dist.get_rank() == dst else tensor


def equal_by_sums(tensor: Tensor, dst: int = 0) -> Tensor:
    """Takes matrices for equal where the sums of their squares are."""
    stack = _stack(tensor)
    return first_of_equal_sums(stack) if dist.get_rank() == dst else tensor


HONEST = {"gathered_everywhere": gathered_everywhere, "point_to_point": point_to_point}
MUTANTS = {
    "reversed_order": reversed_order,
    "stack_on_every_rank": stack_on_every_rank,
    "own_everywhere": own_everywhere,
}
NARROW = {"alike_matrices": equal_by_sums}
