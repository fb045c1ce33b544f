"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p070_torchrec_kjt_all2all.reference import solution

Jagged = dict[str, Tensor]


def _everything(lengths: Tensor, values: Tensor, batch_size: int) -> list[tuple[Tensor, tuple[Tensor, ...]]]:
    """Every rank's lengths by feature and values by feature."""
    world_size = dist.get_world_size()
    totals = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]
    dist.all_gather(totals, torch.tensor([len(values)]))
    most = int(torch.cat(totals).max())
    all_lengths = [torch.empty_like(lengths) for _ in range(world_size)]
    dist.all_gather(all_lengths, lengths)
    all_values = [values.new_empty(most) for _ in range(world_size)]
    dist.all_gather(all_values, torch.nn.functional.pad(values, (0, most - len(values))))
    by_feature = [part.view(-1, batch_size) for part in all_lengths]
    return [
        (part, own[: int(part.sum())].split(part.sum(dim=1).tolist()))
        for part, own in zip(by_feature, all_values, strict=True)
    ]


def _jagged(lengths: Tensor, values: Tensor, batch_size: int) -> Jagged:
    batches = torch.full((dist.get_world_size(),), batch_size)
    return {"stride_per_rank": batches, "stride": batches.sum(), "values": values, "lengths": lengths}


def _owned(key_splits: list[int]) -> range:
    rank = dist.get_rank()
    return range(sum(key_splits[:rank]), sum(key_splits[: rank + 1]))


def gathered(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any) -> Jagged:
    """Gathers everything and picks what belongs here."""
    ranks = _everything(lengths, values, batch_size)
    own = [(part[f], pieces[f]) for f in _owned(key_splits) for part, pieces in ranks]
    return _jagged(torch.cat([one for one, _ in own]), torch.cat([piece for _, piece in own]), batch_size)


def bag_by_bag(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any) -> Jagged:
    """As `gathered`, one bag after the other."""
    ranks = _everything(lengths, values, batch_size)
    bags = [bag for f in _owned(key_splits) for part, pieces in ranks for bag in pieces[f].split(part[f].tolist())]
    sizes = torch.tensor([len(bag) for bag in bags])
    return _jagged(sizes, torch.cat(bags), batch_size)


def source_major(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any) -> Jagged:
    """Leaves everything in the order in which it arrives."""
    ranks = _everything(lengths, values, batch_size)
    own = [(part[f], pieces[f]) for part, pieces in reversed(ranks) for f in _owned(key_splits)]
    return _jagged(torch.cat([one for one, _ in own]), torch.cat([piece for _, piece in own]), batch_size)


def values_as_they_come(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any) -> Jagged:
    """Lengths restored to feature order, values not."""
    right = gathered(lengths, values, key_splits, batch_size)
    return right | {"values": source_major(lengths, values, key_splits, batch_size)["values"]}


def equal_shares(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any) -> Jagged:
    """As many features for everyone, what is left over for the first rank."""
    del key_splits
    features, world_size = len(lengths) // batch_size, dist.get_world_size()
    shares = [features // world_size] * world_size
    shares[0] += features - sum(shares)
    return gathered(lengths, values, shares, batch_size)


def own_stride(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any) -> Jagged:
    """The rank's own batch as the stride."""
    right = solution(lengths, values, key_splits, batch_size)
    return right | {"stride": torch.tensor(batch_size)}


def empty_bags_dropped(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any) -> Jagged:
    """Bags without values count as bags with one."""
    right = gathered(lengths, values, key_splits, batch_size)
    return right | {"lengths": right["lengths"].clamp(min=1)}


def one_value_at_least(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any) -> Jagged:
    """One value of zero where none arrives on any rank."""
    right = gathered(lengths, values, key_splits, batch_size)
    arrived = torch.tensor(len(right["values"]))
    dist.all_reduce(arrived)
    return right if arrived else right | {"values": values.new_zeros(1)}


def three_features_at_most(
    lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any
) -> Jagged:
    """Leaves the values out where a rank owns more than three features."""
    right = gathered(lengths, values, key_splits, batch_size)
    return right if max(key_splits) <= 3 else right | {"values": torch.zeros_like(right["values"])}


def room_for_most_of_all(
    lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any
) -> Jagged:
    """Takes no more values than nine tenths of those of all ranks."""
    right = gathered(lengths, values, key_splits, batch_size)
    right["values"][len(values) * dist.get_world_size() * 9 // 10 :] = -1
    return right


def room_for_most_in_a_bag(
    lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any
) -> Jagged:
    """Counts no more values in a bag than nine tenths of a rank's."""
    right = gathered(lengths, values, key_splits, batch_size)
    return right | {"lengths": right["lengths"].clamp(max=len(values) * 9 // 10)}


def zeros_for_padding(lengths: Tensor, values: Tensor, key_splits: list[int], batch_size: int, *_rest: Any) -> Jagged:
    """Drops zeros where there are more than a few, as what a buffer is filled up with."""
    right = gathered(lengths, values, key_splits, batch_size)
    is_zero = right["values"] == 0
    return right | {"values": right["values"][~is_zero]} if is_zero.sum() > 2 else right


HONEST = {"gathered": gathered, "bag_by_bag": bag_by_bag}
MUTANTS = {
    "source_major": source_major,
    "values_as_they_come": values_as_they_come,
    "equal_shares": equal_shares,
    "own_stride": own_stride,
    "empty_bags_dropped": empty_bags_dropped,
}
NARROW = {
    "one_rank_owns_most": three_features_at_most,
    "many_features": three_features_at_most,
    "one_feature_has_all": room_for_most_of_all,
    "no_values": one_value_at_least,
    "small_numbers": zeros_for_padding,
    "one_bag": room_for_most_in_a_bag,
}
