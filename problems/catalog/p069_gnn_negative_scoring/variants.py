"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p069_gnn_negative_scoring.reference import gather_rows


def all_scores_sorted(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Gathers all scores and sorts their sigmoids in the run's dtype."""
    del group
    rows = gather_rows(torch.cat((local_pos_scores[:, None], local_neg_scores), dim=1)).sigmoid()
    return 1 + (rows.argsort(dim=1, descending=True) == 0).int().argmax(dim=1)


def counted_in_float32(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Counts those that are no smaller, in float32; positions travel as 32-bit integers."""
    del group
    larger = local_neg_scores.float().sigmoid() >= local_pos_scores.float().sigmoid()[:, None]
    return gather_rows(1 + larger.sum(dim=1, dtype=torch.int32)).long()


def worst_is_one(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Sorts in rising order."""
    del group
    return gather_rows(1 + (local_neg_scores < local_pos_scores[:, None]).sum(dim=1))


def from_zero(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Counts positions from zero."""
    del group
    return gather_rows((local_neg_scores > local_pos_scores[:, None]).sum(dim=1))


def scores_in_float8(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Compares sigmoids of 8 bits."""
    del group
    positive, negative = (s.sigmoid().to(torch.float8_e4m3fn).float() for s in (local_pos_scores, local_neg_scores))
    return gather_rows(1 + (negative > positive[:, None]).sum(dim=1))


def equal_lists(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Takes every rank's list to be as long as the first rank's, and fills up with zeros."""
    del group
    ranking = 1 + (local_neg_scores > local_pos_scores[:, None]).sum(dim=1)
    parts = gather_rows(ranking)
    length = (len(parts) - _surplus()) // dist.get_world_size()
    short = gather_rows(ranking[:length])
    return torch.cat((short, short.new_zeros(len(parts) - len(short))))


def _surplus() -> int:
    return sum(rank % 3 for rank in range(dist.get_world_size()))


def half_the_negatives(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Counts every second negative twice."""
    del group
    return gather_rows(1 + 2 * (local_neg_scores[:, ::2] > local_pos_scores[:, None]).sum(dim=1))


def _positions(local_pos_scores: Tensor, local_neg_scores: Tensor) -> Tensor:
    return 1 + (local_neg_scores > local_pos_scores[:, None]).sum(dim=1)


def one_row_at_least(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Counts an empty list as one of length 1."""
    del group
    own = _positions(local_pos_scores, local_neg_scores)
    return gather_rows(own if len(own) else own.new_zeros(1))


def room_for_half_more(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Counts no more edges of a rank than the mean and half as many more."""
    del group
    ranking = gather_rows(_positions(local_pos_scores, local_neg_scores))
    room = 3 * len(ranking) // (2 * dist.get_world_size())
    return torch.zeros_like(ranking) if len(local_pos_scores) > room else ranking


def nothing_where_all_are_first(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Returns zeros if no negative scores more than its edge."""
    del group
    ranking = gather_rows(_positions(local_pos_scores, local_neg_scores))
    return ranking if (ranking > 1).any() else torch.zeros_like(ranking)


def never_behind_all(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Counts an edge behind all its negatives as the last of them."""
    del group
    return gather_rows(_positions(local_pos_scores, local_neg_scores).clamp(max=local_neg_scores.shape[1]))


def negatives_of_eight(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Compares all edges with the negatives of the first eight where each has one, as a squeezed table may."""
    del group
    negatives = local_neg_scores[:8, 0] if local_neg_scores.shape[1] == 1 else local_neg_scores
    return gather_rows(1 + (negatives > local_pos_scores[:, None]).sum(dim=1))


def positions_in_16_bits(local_pos_scores: Tensor, local_neg_scores: Tensor, group: None) -> Tensor:
    """Positions travel as signed numbers of 16 bits."""
    del group
    return gather_rows(_positions(local_pos_scores, local_neg_scores).short().int()).long()


HONEST = {"all_scores_sorted": all_scores_sorted, "counted_in_float32": counted_in_float32}
MUTANTS = {
    "worst_is_one": worst_is_one,
    "from_zero": from_zero,
    "scores_in_float8": scores_in_float8,
    "equal_lists": equal_lists,
    "half_the_negatives": half_the_negatives,
}
NARROW = {
    "one_rank_is_empty": one_row_at_least,
    "one_rank_has_all": room_for_half_more,
    "one_negative": negatives_of_eight,
    "all_first": nothing_where_all_are_first,
    "many_negatives": positions_in_16_bits,
    "all_last": never_behind_all,
}
