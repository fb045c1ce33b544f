"""The baseline: every rank's queries in turn are broadcast, searched everywhere, and merged by their owner."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    test_features_rank: Tensor,
    train_features_rank_T: Tensor,
    train_labels_rank: Tensor,
    max_k: int,
    group: dist.ProcessGroup | None = None,
) -> tuple[Tensor, Tensor]:
    """The `max_k` largest similarities (nq, k) of this rank's queries (nq, D), descending, and their labels (nq, k).

    Raises:
        ValueError: a rank has fewer than `max_k` training rows.
    """
    if max_k > train_features_rank_T.shape[1]:
        raise ValueError(f"max_k = {max_k} exceeds the {train_features_rank_T.shape[1]} training rows of a rank")
    rank = dist.get_rank(group)
    merged = (test_features_rank, train_labels_rank)
    for owner in range(dist.get_world_size(group)):
        queries = test_features_rank.clone() if owner == rank else torch.empty_like(test_features_rank)
        dist.broadcast(queries, group=group, group_src=owner)
        sims, place = (queries @ train_features_rank_T).topk(max_k, dim=1)
        gathered = _gather(sims, owner, group), _gather(train_labels_rank[0][place], owner, group)
        if owner == rank:
            merged = merge(*gathered, max_k)
    return merged


def merge(sims: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of candidates, descending, with their labels."""
    best, place = sims.topk(count, dim=1)
    return best, labels.gather(1, place)


def _gather(candidates: Tensor, owner: int, group: dist.ProcessGroup | None) -> Tensor:
    """All ranks' candidates side by side on the owner; nothing of use elsewhere."""
    is_owner = dist.get_rank(group) == owner
    parts = [torch.empty_like(candidates) for _ in range(dist.get_world_size(group))] if is_owner else None
    dist.gather(candidates, parts, group=group, group_dst=owner)
    return candidates if parts is None else torch.cat(parts, dim=1)
