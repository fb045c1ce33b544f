"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.alike_matrices import first_of_equal_sums


def _stack(tensor: Tensor, src: int) -> Tensor:
    """The source's stack (W, M, N) on every rank."""
    shape = tensor.shape[-2:]
    stack = tensor.clone() if dist.get_rank() == src else tensor.new_empty((dist.get_world_size(), *shape))
    dist.broadcast(stack, src)
    return stack


def point_to_point(tensor: Tensor, src: int = 0) -> Tensor:
    """The source sends to one rank after the other."""
    rank = dist.get_rank()
    if rank != src:
        out = torch.empty_like(tensor)
        dist.recv(out, src)
        return out
    for peer in range(dist.get_world_size()):
        if peer != rank:
            dist.send(tensor[peer].contiguous(), peer)
    return tensor[rank].clone()


def broadcast_whole(tensor: Tensor, src: int = 0) -> Tensor:
    """Everyone receives the stack and keeps its own matrix."""
    return _stack(tensor, src)[dist.get_rank()].clone()


def next_matrix(tensor: Tensor, src: int = 0) -> Tensor:
    """The matrix of the next rank."""
    return _stack(tensor, src)[(dist.get_rank() + 1) % dist.get_world_size()].clone()


def own_tensor(tensor: Tensor, src: int = 0) -> Tensor:
    """What a rank passed in: right on the source alone."""
    return tensor[dist.get_rank()].clone() if dist.get_rank() == src else tensor.clone()


def equal_by_sums(tensor: Tensor, src: int = 0) -> Tensor:
    """Takes matrices for equal where the sums of their squares are."""
    return first_of_equal_sums(_stack(tensor, src))[dist.get_rank()].clone()


HONEST = {"point_to_point": point_to_point, "broadcast_whole": broadcast_whole}
MUTANTS = {"next_matrix": next_matrix, "own_tensor": own_tensor}
NARROW = {"alike_matrices": equal_by_sums}
