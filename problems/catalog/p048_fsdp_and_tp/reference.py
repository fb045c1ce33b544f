"""The baseline: weights gathered in the FSDP group, products, all-reduce in the tensor-parallel group."""

from functools import cache

import torch.distributed as dist
from torch import Tensor, nn


def solution(x_local: Tensor, W1_shard: Tensor, W2_shard: Tensor, W3_shard: Tensor, n_tp: int, n_fsdp: int) -> Tensor:
    """The gated MLP (B_fsdp, D) of the rank's samples, the same on all ranks of a tensor-parallel group."""
    tensor_group, fsdp_group = _groups(n_tp, n_fsdp)
    W1, W2 = (_gather(shard, n_fsdp, fsdp_group) for shard in (W1_shard, W2_shard))
    # The columns of W3 are sharded: its transpose is gathered by rows.
    W3 = _gather(W3_shard.t().contiguous(), n_fsdp, fsdp_group).t()
    y = (nn.functional.silu(x_local @ W1) * (x_local @ W2)) @ W3
    if n_tp > 1:
        dist.all_reduce(y, group=tensor_group)
    return y


@cache
def _groups(n_tp: int, n_fsdp: int) -> "tuple[dist.ProcessGroup | None, dist.ProcessGroup | None]":
    """The rank's tensor-parallel and FSDP group, made once: all ranks take part in making each."""
    blocks = [list(range(place * n_tp, (place + 1) * n_tp)) for place in range(n_fsdp)]
    strides = [list(range(part, n_tp * n_fsdp, n_tp)) for part in range(n_tp)]
    tensor_group, _ = dist.new_subgroups_by_enumeration(blocks)
    fsdp_group, _ = dist.new_subgroups_by_enumeration(strides)
    return tensor_group, fsdp_group


def _gather(shard: Tensor, n_fsdp: int, group: "dist.ProcessGroup | None") -> Tensor:
    """All shards of `group`, one below the other."""
    whole = shard.new_empty(n_fsdp * shard.shape[0], shard.shape[1])
    dist.all_gather_into_tensor(whole, shard, group=group)
    return whole
