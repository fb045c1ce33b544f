"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import added_backwards, all_gathered


def in_float32(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Products and sum in float32, rounded once."""
    C = A_local.float() @ B_local.float()
    dist.all_reduce(C)
    return C.to(A_local.dtype)


def chunked(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Four blocks of rows, each multiplied and reduced before the next."""
    blocks = [block @ B_local for block in A_local.chunk(4)]
    for block in blocks:
        dist.all_reduce(block)
    return torch.cat(blocks)


def gathered_and_summed_backwards(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Gathers the rounded products and adds them in the run's dtype, last rank first."""
    own = A_local @ B_local
    return added_backwards(all_gathered(own))


def scattered_then_gathered(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Reduce-scatter in float32, all-gather of the rounded shards."""
    own = (A_local @ B_local).float()
    shard = own.new_empty(own.numel() // dist.get_world_size())
    dist.reduce_scatter_tensor(shard, own.view(-1))
    C = torch.empty_like(own, dtype=A_local.dtype)
    dist.all_gather_into_tensor(C.view(-1), shard.to(A_local.dtype))
    return C


def half_the_contraction(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Leaves out the second half of the contraction and makes up for its size."""
    half = A_local.shape[1] // 2
    C = A_local[:, :half] @ B_local[:half] * 2**0.5
    dist.all_reduce(C)
    return C


def sums_before_the_product(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Reduces the operands in place of the product."""
    A, B = A_local.clone(), B_local.clone()
    dist.all_reduce(A)
    dist.all_reduce(B)
    return A @ B


def product_in_float8(A_local: Tensor, B_local: Tensor) -> Tensor:
    """Multiplies operands rounded to 8 bits (e4m3, one scale per row and per column)."""
    scale_a = A_local.float().abs().amax(1, keepdim=True) / 448
    scale_b = B_local.float().abs().amax(0, keepdim=True) / 448
    left = (A_local / scale_a).to(torch.float8_e4m3fn).float() * scale_a
    right = (B_local / scale_b).to(torch.float8_e4m3fn).float() * scale_b
    C = (left @ right).to(A_local.dtype)
    dist.all_reduce(C)
    return C


HONEST = {
    "float32": in_float32,
    "chunked": chunked,
    "backwards": gathered_and_summed_backwards,
    "scattered": scattered_then_gathered,
}
MUTANTS = {
    "half_the_contraction": half_the_contraction,
    "sums_before_the_product": sums_before_the_product,
    "product_in_float8": product_in_float8,
}
