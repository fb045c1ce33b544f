"""The baseline: look rows up in the order of ranks, one library collective, put the own rank's piece first."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    local_features: Tensor,
    seed_inverse_ids: Tensor,
    counts_sent: list[int],
    counts_received: list[int],
    group: "dist.ProcessGroup | None" = None,
) -> Tensor:
    """The rows (sum(counts_sent), h) that the ranks of `group` hold for this one, own rank first, then rising."""
    rank = dist.get_rank(group)
    send, receive = _by_rank(counts_received, rank), _by_rank(counts_sent, rank)
    # The piece of relative rank i goes to rank + i: those that wrap around to rank 0 come first.
    ids = _rotate(seed_inverse_ids, sum(send[rank:]))
    arrived = local_features.new_empty((sum(receive), *local_features.shape[1:]))
    dist.all_to_all_single(arrived, local_features[ids], receive, send, group=group)
    return _rotate(arrived, sum(receive[:rank]))


def _by_rank(counts: list[int], rank: int) -> list[int]:
    """Counts by relative rank, in the order of ranks."""
    start = len(counts) - rank
    return counts[start:] + counts[:start]


def _rotate(rows: Tensor, start: int) -> Tensor:
    """The rows from `start` on, then those before it."""
    return torch.cat((rows[start:], rows[:start]))
