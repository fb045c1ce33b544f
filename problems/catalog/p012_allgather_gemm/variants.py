"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered, exchange


def in_float32(A_local: Tensor, B: Tensor) -> Tensor:
    """The product in float32, rounded once."""
    A = torch.cat(all_gathered(A_local), dim=1)
    return (A.float() @ B.float()).to(A_local.dtype)


def shard_by_shard(A_local: Tensor, B: Tensor) -> Tensor:
    """Multiplies each shard as it comes round a ring and adds in float32, the own shard first."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    blocks = B.float().chunk(world_size)
    shard = A_local.contiguous()
    C = shard.float() @ blocks[rank]
    for step in range(1, world_size):
        received = torch.empty_like(shard)
        exchange([(shard, (rank + 1) % world_size)], [(received, (rank - 1) % world_size)])
        shard = received
        C += shard.float() @ blocks[(rank - step) % world_size]
    return C.to(A_local.dtype)


def rounded_by_shard(A_local: Tensor, B: Tensor) -> Tensor:
    """Adds each shard's product to the result in the run's dtype, as a program does that multiplies what has come."""
    C = A_local.new_zeros((A_local.shape[0], B.shape[1]))
    for shard, block in zip(all_gathered(A_local), B.chunk(dist.get_world_size()), strict=True):
        C.addmm_(shard, block)
    return C


def rows_in_blocks(A_local: Tensor, B: Tensor) -> Tensor:
    """Four blocks of rows, each gathered and multiplied before the next."""
    return torch.cat([torch.cat(all_gathered(block), dim=1) @ B for block in A_local.chunk(4)])


def own_shard_only(A_local: Tensor, B: Tensor) -> Tensor:
    """The own share of the contraction, made up for in size."""
    block = B.chunk(dist.get_world_size())[dist.get_rank()]
    return A_local @ block * dist.get_world_size() ** 0.5


def reversed_shards(A_local: Tensor, B: Tensor) -> Tensor:
    """The last rank's shard first."""
    return torch.cat(all_gathered(A_local)[::-1], dim=1) @ B


def interleaved(A_local: Tensor, B: Tensor) -> Tensor:
    """Column k of every shard before column k + 1 of any."""
    return torch.stack(all_gathered(A_local), dim=2).flatten(1) @ B


def operands_in_float8(A_local: Tensor, B: Tensor) -> Tensor:
    """Multiplies operands rounded to 8 bits (e4m3, one scale per row and per column)."""
    A = torch.cat(all_gathered(A_local), dim=1).float()
    scale_a = A.abs().amax(1, keepdim=True) / 448
    scale_b = B.float().abs().amax(0, keepdim=True) / 448
    left = (A / scale_a).to(torch.float8_e4m3fn).float() * scale_a
    right = (B / scale_b).to(torch.float8_e4m3fn).float() * scale_b
    return (left @ right).to(A_local.dtype)


HONEST = {
    "float32": in_float32,
    "shard_by_shard": shard_by_shard,
    "rounded_by_shard": rounded_by_shard,
    "rows_in_blocks": rows_in_blocks,
}
MUTANTS = {
    "own_shard_only": own_shard_only,
    "reversed_shards": reversed_shards,
    "interleaved": interleaved,
    "operands_in_float8": operands_in_float8,
}
