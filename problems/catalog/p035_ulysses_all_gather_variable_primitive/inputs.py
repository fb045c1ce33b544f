"""Arguments of one rank for one call."""

from itertools import pairwise

import torch

from problems.inputs.copied_values import copied
from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x`, the dimension to join along, and no group."""
    usual = call.dims["gather_dim"]
    dim = 1 - usual if call.setting("turned", usual=False) else usual
    shape = [int(call.setting("width", call.dims["M" if usual else "N"]))] * 2
    shape[dim] = lengths(call)[call.rank]
    x = call.normal("x", shape)
    if call.setting("front", None) == "zero":
        x.movedim(dim, 0)[::2, :8] = 0
    return {"x": copied(call, "x", x), "gather_dim": dim, "group": None}


def lengths(call: Call) -> list[int]:
    """The length of every rank's share along `gather_dim`; they add up to `total`, or a part of it.

    Equal where the size fixes both extents. Elsewhere half the mean and a drawn part of the other half of all: never
    more than twice the mean, always different, the longest on a rank that changes from call to call.
    In a regime they are what any cuts of the whole leave, or two of them differ from the mean by as much.
    """
    total, count = max(1, call.dims["total"] // int(call.setting("shorter", 1))), call.world_size
    if (shares := call.setting("shares", None)) == "about_the_mean" and total >= count:
        return _about_the_mean(call, total // count)
    if shares in ("any", "about_the_mean"):
        cuts = call.integers("regime's cuts", (count - 1,), low=0, high=total + 1, shared=True).sort().values
        return [end - start for start, end in pairwise([0, *cuts.tolist(), total])]
    if shares is not None:
        return _extreme(total, count, shares, one=owner(call))
    if "M" in call.dims and "N" in call.dims:
        return [total // count] * count
    least = total // (2 * count)
    steps = torch.linspace(0.2, 1.0, count, dtype=torch.float64, device=call.device)
    spread = call.uniform("lengths", (count,), high=0.8 / count, dtype=torch.float64, shared=True)
    weights = (steps + spread)[call.permutation("places", count, shared=True)]
    free = total - least * count
    ends = [0, *(weights.cumsum(0) / weights.sum() * free).round().long().tolist()]
    return [least + end - start for start, end in pairwise(ends)]


def _about_the_mean(call: Call, mean: int) -> list[int]:
    """Lengths of which all but two are `mean`, often among them that of the first rank, or of the last one.

    They add up to a multiple of it, so that sums and single lengths look as if all were equal.
    """
    count = call.world_size
    kept, less = call.integers("regime's ranks", (2,), low=0, high=count, shared=True).tolist()
    difference = int(call.integers("regime's difference", (), low=1, high=mean + 1, shared=True))
    # The first or the last rank has the mean, the first one more often.
    others = list(range(count) if count == 2 else range(count - 1) if kept == count - 1 else range(1, count))
    found = [mean] * count
    found[others[less % len(others)]] -= difference
    found[others[(less + 1) % len(others)]] += difference
    return found


def _extreme(total: int, count: int, shares: str, *, one: int) -> list[int]:
    """Lengths where rank `one` has everything, or nothing while the others have equal parts but for a rest."""
    if shares == "one_has_all":
        return [total if rank == one else 0 for rank in range(count)]
    part, rest = divmod(total, count - 1)
    others = [part + (place < rest) for place in range(count - 1)]
    return [*others[:one], 0, *others[one:]]
