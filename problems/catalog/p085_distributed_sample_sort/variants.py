"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered


def _shares(shard: Tensor) -> list[Tensor]:
    """Every rank's values, by broadcasts of their own length."""
    own = torch.tensor([shard.numel()])
    counts = all_gathered(own)
    shares = []
    for rank, count in enumerate(counts):
        share = shard.clone() if rank == dist.get_rank() else shard.new_empty(int(count))
        dist.broadcast(share, rank)
        shares.append(share)
    return shares


def _balanced(values: Tensor) -> Tensor:
    return values.tensor_split(dist.get_world_size())[dist.get_rank()].clone()


def gathered(local_shard: Tensor, group: None = None) -> Tensor:
    """Gathers everything and sorts it once."""
    return _balanced(torch.cat(_shares(local_shard)).sort().values)


def padded(local_shard: Tensor, group: None = None) -> Tensor:
    """All shards filled up with infinity to the same length, gathered, sorted, and the filling cut off."""
    longest = torch.tensor([local_shard.numel(), local_shard.numel()])
    dist.all_reduce(longest[:1], op=dist.ReduceOp.MAX)
    dist.all_reduce(longest[1:])
    filled = local_shard.new_full((int(longest[0]),), torch.inf)
    filled[: local_shard.numel()] = local_shard
    return _balanced(torch.cat(all_gathered(filled)).sort(stable=True).values[: int(longest[1])])


def _like_owed(values: Tensor, shares: list[Tensor]) -> Tensor:
    """`values` cut or repeated to the length of the rank's expected output."""
    owed = _balanced(torch.cat(shares)).numel()
    return values.repeat(-(-owed // max(1, values.numel())))[:owed] if values.numel() else values.new_zeros(owed)


def sorted_locally(local_shard: Tensor, group: None = None) -> Tensor:
    """Each rank sorts what it has."""
    shares = _shares(local_shard)
    return _like_owed(local_shard.sort().values, shares)


def descending(local_shard: Tensor, group: None = None) -> Tensor:
    """The wrong way round."""
    return _balanced(torch.cat(_shares(local_shard)).sort(descending=True).values)


def by_magnitude(local_shard: Tensor, group: None = None) -> Tensor:
    """Sorted without regard to the sign."""
    values = torch.cat(_shares(local_shard))
    return _balanced(values[values.abs().argsort()])


def without_duplicates(local_shard: Tensor, group: None = None) -> Tensor:
    """Each value once, filled up with the largest."""
    values = torch.cat(_shares(local_shard))
    unique = values.unique()
    return _balanced(torch.cat([unique, unique[-1:].expand(values.numel() - unique.numel())]))


def unbalanced(local_shard: Tensor, group: None = None) -> Tensor:
    """Cut where the ranks' own lengths would have it."""
    shares = _shares(local_shard)
    values = torch.cat(shares).sort().values
    return values.split([share.numel() for share in shares])[dist.get_rank()].clone()


def off_by_one(local_shard: Tensor, group: None = None) -> Tensor:
    """Every cut one index too far."""
    return _balanced(torch.cat(_shares(local_shard)).sort().values.roll(-1))


def longest_share_forgotten(local_shard: Tensor, group: None = None) -> Tensor:
    """Zeros in place of the longest share."""
    shares = _shares(local_shard)
    longest = max(range(len(shares)), key=lambda rank: shares[rank].numel())
    shares[longest] = torch.zeros_like(shares[longest])
    return _balanced(torch.cat(shares).sort().values)


def shortest_share_forgotten(local_shard: Tensor, group: None = None) -> Tensor:
    """Zeros in place of the shortest share, which has no values in timed calls at some sizes."""
    shares = _shares(local_shard)
    shortest = min(range(len(shares)), key=lambda rank: shares[rank].numel())
    shares[shortest] = torch.zeros_like(shares[shortest])
    return _balanced(torch.cat(shares).sort().values)


def zero_for_single_values(local_shard: Tensor, group: None = None) -> Tensor:
    """Zero for the value of a rank that has a single one."""
    shares = [_zero_from(share, int(share.numel() > 1) * share.numel()) for share in _shares(local_shard)]
    return _balanced(torch.cat(shares).sort().values)


def buckets_of_three_quarters(local_shard: Tensor, group: None = None) -> Tensor:
    """Zeros for equal values beyond three quarters of all, which a bucket between two splitters has no room for."""
    values = torch.cat(_shares(local_shard)).sort().values
    counts = values.unique_consecutive(return_counts=True)[1]
    kept = [_zero_from(run, 3 * values.numel() // 4) for run in values.split(counts.tolist())]
    return _balanced(torch.cat(kept).sort().values)


def _zero_from(values: Tensor, most: int) -> Tensor:
    return torch.cat([values[:most], torch.zeros_like(values[most:])])


def pairs_of_six_sevenths(local_shard: Tensor, group: None = None) -> Tensor:
    """Zeros where a rank owes another more than six sevenths of its unequal values: messages have no more room."""
    shares = _shares(local_shard)
    values = torch.cat(shares).sort().values
    firsts = [len(part) for part in values.tensor_split(dist.get_world_size())]
    cuts = values[torch.tensor(firsts[:-1]).cumsum(0)]
    for share in shares:
        owed = torch.searchsorted(cuts, share, right=True).bincount()
        if share.numel() and share.min() < share.max() and 7 * int(owed.max()) > 6 * share.numel():
            return _balanced(torch.zeros_like(values))
    return _balanced(values)


def counted_in_16_bits(local_shard: Tensor, group: None = None) -> Tensor:
    """Infinity for equal values beyond 65,535, which a counter of 16 bits cannot count."""
    values = torch.cat(_shares(local_shard)).sort().values
    counts = values.unique_consecutive(return_counts=True)[1]
    for run in values.split(counts.tolist()):
        run[65_535:] = torch.inf
    return _balanced(values.sort().values)


def infinity_is_padding(local_shard: Tensor, group: None = None) -> Tensor:
    """Counts infinite values as filling, and puts the largest finite one in their places."""
    values = torch.cat(_shares(local_shard))
    finite = values[values.isfinite()].sort().values
    return _balanced(torch.cat([finite, finite[-1:].expand(values.numel() - finite.numel())]))


def samples_of_a_step(local_shard: Tensor, group: None = None) -> Tensor:
    """Zeros where a rank has one to seven values, of which every n/8-th would be a sample."""
    shares = _shares(local_shard)
    values = torch.cat(shares).sort().values
    is_sampled = all(share.numel() // 8 for share in shares if share.numel())
    return _balanced(values if is_sampled else torch.zeros_like(values))


def room_for_2560(local_shard: Tensor, group: None = None) -> Tensor:
    """Zeros for what a rank has beyond 2560 values, which a block of threads has no room for."""
    return _balanced(torch.cat([_zero_from(share, 2560) for share in _shares(local_shard)]).sort().values)


HONEST = {"gathered": gathered, "padded": padded}
MUTANTS = {
    "sorted_locally": sorted_locally,
    "descending": descending,
    "by_magnitude": by_magnitude,
    "without_duplicates": without_duplicates,
    "unbalanced": unbalanced,
    "off_by_one": off_by_one,
    "longest_share_forgotten": longest_share_forgotten,
}
NARROW = {
    "nobody_is_empty": shortest_share_forgotten,
    "few_values": samples_of_a_step,
    "other_lengths": room_for_2560,
    "one_rank_has_all": zero_for_single_values,
    "ranges_apart": pairs_of_six_sevenths,
    "equal_values": buckets_of_three_quarters,
    "many_equal_values": counted_in_16_bits,
    "infinite_values": infinity_is_padding,
}
