"""The baseline: counts, row numbers and rows, each by one library collective."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(indices: Tensor, local_shard: Tensor) -> Tensor:
    """The table's rows (M, N) at `indices` (M,), grouped by owner and in the given order within each group."""
    rows = local_shard.shape[0]
    owner = indices // rows
    asked = indices[owner.argsort(stable=True)]
    send = torch.bincount(owner, minlength=dist.get_world_size())
    receive = torch.empty_like(send)
    dist.all_to_all_single(receive, send)
    # The library needs both lists of sizes on the host: one wait for both.
    send_sizes, receive_sizes = torch.stack((send, receive)).tolist()
    wanted = indices.new_empty(sum(receive_sizes))
    dist.all_to_all_single(wanted, asked, receive_sizes, send_sizes)
    local = (wanted - dist.get_rank() * rows).clamp_(0, rows - 1)
    out = local_shard.new_empty((len(indices), *local_shard.shape[1:]))
    dist.all_to_all_single(out, local_shard[local], send_sizes, receive_sizes)
    return out
