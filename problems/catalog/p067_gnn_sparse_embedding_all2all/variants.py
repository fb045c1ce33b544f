"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p067_gnn_sparse_embedding_all2all.reference import solution
from problems.families.rank_parts import exchange

Pairs = tuple[Tensor, Tensor]


def _everything(idx: Tensor, value: Tensor) -> Pairs:
    """All ranks' pairs, in rank order."""
    ids = [torch.empty_like(idx) for _ in range(dist.get_world_size())]
    values = [torch.empty_like(value) for _ in ids]
    dist.all_gather(ids, idx)
    dist.all_gather(values, value)
    return torch.cat(ids), torch.cat(values)


def gathered(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Gathers all pairs and keeps its own."""
    del num_nodes, group
    ids, values = _everything(idx, value)
    is_own = ids % dist.get_world_size() == dist.get_rank()
    return ids[is_own], values[is_own]


def owner_by_owner(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Point to point: a count to every owner, then its pairs."""
    del num_nodes, group
    rank, peers = dist.get_rank(), range(dist.get_world_size())
    masks = [idx % len(peers) == owner for owner in peers]
    received = torch.empty(len(peers), dtype=torch.int64, device=idx.device)
    dist.all_to_all_single(received, torch.stack([mask.sum() for mask in masks]))
    ids = [idx.new_empty(int(count)) for count in received]
    values = [value.new_empty((int(count), value.shape[1])) for count in received]
    ids[rank], values[rank] = idx[masks[rank]], value[masks[rank]]
    others = [peer for peer in peers if peer != rank]
    exchange(
        ((tensor[masks[peer]], peer) for peer in others for tensor in (idx, value)),
        ((tensors[peer], peer) for peer in others for tensors in (ids, values)),
    )
    return torch.cat(ids), torch.cat(values)


def owners_by_range(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Owners of consecutive blocks of ids instead of remainders."""
    del group
    ids, values = _everything(idx, value)
    is_own = ids // (num_nodes // dist.get_world_size()) == dist.get_rank()
    return ids[is_own], values[is_own]


def local_numbers(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Ids as rows of the own shard."""
    ids, values = solution(idx, value, num_nodes, group)
    return ids // dist.get_world_size(), values


def sorted_by_id(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Sorted by id instead of by owner alone."""
    order = idx.argsort(stable=True)
    return solution(idx[order], value[order], num_nodes, group)


def duplicates_merged(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Adds up the rows of one id."""
    ids, values = solution(idx, value, num_nodes, group)
    distinct, place = ids.unique(return_inverse=True)
    return distinct, values.new_zeros((len(distinct), values.shape[1])).index_add_(0, place, values)


def own_pairs_only(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Keeps what it owns already and asks nobody."""
    del num_nodes, group
    is_own = idx % dist.get_world_size() == dist.get_rank()
    return idx[is_own], value[is_own]


def values_unpermuted(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Rows sent in their first order beside sorted ids."""
    ids, _ = solution(idx, value, num_nodes, group)
    back = torch.empty_like(value)
    back[(idx % dist.get_world_size()).argsort(stable=True)] = value
    return ids, solution(idx, back, num_nodes, group)[1]


def one_pair_at_least(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """A pair of zeros where none arrives."""
    ids, values = solution(idx, value, num_nodes, group)
    return (ids, values) if len(ids) else (ids.new_zeros(1), values.new_zeros((1, values.shape[1])))


def nothing_where_nothing_travels(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Returns no pairs where none come from another rank."""
    ids, values = solution(idx, value, num_nodes, group)
    travels = (idx % dist.get_world_size() != dist.get_rank()).sum()
    dist.all_reduce(travels)
    return (ids, values) if travels else (ids[:0], values[:0])


def ids_in_32_bits(idx: Tensor, value: Tensor, num_nodes: int, group: None) -> Pairs:
    """Sends the lower half of every id."""
    ids, values = solution(idx, value, num_nodes, group)
    return ids.int().long(), values


HONEST = {"gathered": gathered, "owner_by_owner": owner_by_owner}
MUTANTS = {
    "owners_by_range": owners_by_range,
    "local_numbers": local_numbers,
    "sorted_by_id": sorted_by_id,
    "duplicates_merged": duplicates_merged,
    "own_pairs_only": own_pairs_only,
    "values_unpermuted": values_unpermuted,
}
NARROW = {
    "one_owner": one_pair_at_least,
    "own_pairs": nothing_where_nothing_travels,
    "no_pairs": one_pair_at_least,
    "many_nodes": ids_in_32_bits,
}
