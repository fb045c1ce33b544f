"""Arguments of one rank for one call."""

from itertools import pairwise

import torch

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x`, the dimension to join along, and no group."""
    shape = [call.dims.get(name, 0) for name in ("M", "N")]
    shape[call.dims["gather_dim"]] = lengths(call)[call.rank]
    return {"x": call.normal("x", shape), "gather_dim": call.dims["gather_dim"], "group": None}


def lengths(call: Call) -> list[int]:
    """The length of every rank's share along `gather_dim`; they add up to `total`.

    Equal where the size fixes both extents. Elsewhere half the mean and a drawn part of the other half of all: never
    more than twice the mean, always different, the longest on a rank that changes from call to call.
    """
    total, count = call.dims["total"], call.world_size
    if "M" in call.dims and "N" in call.dims:
        return [total // count] * count
    least = total // (2 * count)
    steps = torch.linspace(0.2, 1.0, count, dtype=torch.float64, device=call.device)
    spread = call.uniform("lengths", (count,), high=0.8 / count, dtype=torch.float64, shared=True)
    weights = (steps + spread)[call.permutation("places", count, shared=True)]
    free = total - least * count
    ends = [0, *(weights.cumsum(0) / weights.sum() * free).round().long().tolist()]
    return [least + end - start for start, end in pairwise(ends)]
