"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import added_backwards


def _exchanged(partial: Tensor) -> Tensor:
    """All ranks' partial products of the own row block (W, M_local, N), in rank order."""
    received = torch.empty_like(partial)
    dist.all_to_all_single(received, partial)
    return received.view(dist.get_world_size(), -1, partial.shape[1])


def in_float32(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Product, payload and sum in float32, rounded once."""
    return _exchanged(A_local.float() @ B_local.float()).sum(dim=0).to(A_local.dtype)


def summed_on_arrival(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Partial products travel in the run's dtype and are summed in float32."""
    return _exchanged(A_local @ B_local).float().sum(dim=0).to(A_local.dtype)


def backwards(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Adds in the run's dtype, last rank first."""
    parts = list(_exchanged(A_local @ B_local))
    return added_backwards(parts)


def block_by_block(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Multiplies the rows of one owner at a time and reduces them to that owner."""
    out = A_local.new_empty((0, B_local.shape[1]))
    for owner, rows in enumerate(A_local.chunk(dist.get_world_size())):
        block = rows @ B_local
        dist.reduce(block, owner)
        if owner == dist.get_rank():
            out = block
    return out


def next_block(A_local: Tensor, B_local: Tensor) -> Tensor:
    """The row block of the next rank."""
    C = A_local @ B_local
    dist.all_reduce(C)
    world_size = dist.get_world_size()
    return C.chunk(world_size)[(dist.get_rank() + 1) % world_size].clone()


def columns_in_place_of_rows(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Scatters blocks of columns."""
    C = A_local @ B_local
    dist.all_reduce(C)
    return C.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].reshape(-1, B_local.shape[1])


def own_partial_scaled(A_local: Tensor, B_local: Tensor) -> Tensor:
    """The own partial product, as large as the sum."""
    world_size = dist.get_world_size()
    return A_local.chunk(world_size)[dist.get_rank()] @ B_local * world_size**0.5


HONEST = {
    "float32": in_float32,
    "summed_on_arrival": summed_on_arrival,
    "backwards": backwards,
    "block_by_block": block_by_block,
}
MUTANTS = {
    "next_block": next_block,
    "columns_in_place_of_rows": columns_in_place_of_rows,
    "own_partial_scaled": own_partial_scaled,
}
