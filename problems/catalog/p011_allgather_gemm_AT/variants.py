"""Programs that must pass and programs that must fail."""

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered


def _gathered(A_local: Tensor) -> Tensor:
    """A in transposed layout (K, M)."""
    shards = [A_local.new_empty(A_local.shape[::-1]) for _ in range(dist.get_world_size())]
    dist.all_gather(shards, A_local.t().contiguous())
    return torch.cat(shards)


def column_major(A_local: Tensor, B: Tensor) -> Tensor:
    """Computes the transposed product and returns a view of it."""
    return (B.t() @ _gathered(A_local)).t()


def in_float32(A_local: Tensor, B: Tensor) -> Tensor:
    """The product in float32, rounded once."""
    return (_gathered(A_local).t().float() @ B.float()).to(A_local.dtype)


def backwards(A_local: Tensor, B: Tensor, *, width: torch.dtype | None = None) -> Tensor:
    """One shard after the other, the last rank's first, added in `width`: the run's dtype where it is None."""
    world_size = dist.get_world_size()
    pairs = list(zip(_gathered(A_local).chunk(world_size), B.chunk(world_size), strict=True))
    C = A_local.new_zeros((A_local.shape[0], B.shape[1]), dtype=width)
    for shard, block in reversed(pairs):
        C.addmm_(shard.t().to(C.dtype), block.to(C.dtype))
    return C.to(A_local.dtype)


def not_transposed(A_local: Tensor, B: Tensor) -> Tensor:
    """Reads the gathered rows as if no shard had been transposed."""
    return torch.stack(all_gathered(A_local)).view(-1, A_local.shape[0]).t() @ B


def last_shard_twice(A_local: Tensor, B: Tensor) -> Tensor:
    """The last shard also stands where the first belongs."""
    A = _gathered(A_local)
    rows = A_local.shape[1]
    A[:rows] = A[-rows:]
    return A.t() @ B


def half_the_contraction(A_local: Tensor, B: Tensor) -> Tensor:
    """Leaves out the second half of the contraction and makes up for its size."""
    half = len(B) // 2
    return _gathered(A_local)[:half].t() @ B[:half] * 2**0.5


HONEST = {
    "column_major": column_major,
    "float32": in_float32,
    "backwards": partial(backwards, width=torch.float32),
    "rounded_by_shard": backwards,
}
MUTANTS = {
    "not_transposed": not_transposed,
    "last_shard_twice": last_shard_twice,
    "half_the_contraction": half_the_contraction,
}
