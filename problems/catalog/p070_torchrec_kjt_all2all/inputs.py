"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.values import Arguments, Call

LARGEST_ID = 1_000_000


def make_inputs(call: Call) -> Arguments:
    """`lengths` (F * Bt,) and `values` (T,) of all features, and how many features each rank owns."""
    return {
        "lengths": _lengths(call),
        "values": call.integers("values", ("T",), low=0, high=LARGEST_ID),
        "key_splits": key_splits(call.world_size),
        "batch_size": call.dims["Bt"],
        "pg": None,
        "weights": None,
        "stride_per_key": None,
        "stagger": 1,
    }


def key_splits(world_size: int) -> list[int]:
    """Features per rank: 1, 2, 3, 1, 2, 3, ..."""
    return [1 + rank % 3 for rank in range(world_size)]


def _lengths(call: Call) -> Tensor:
    """Values per bag, features first: T values fall into bags of log-normal attraction, those of a feature alike.

    A quarter of the bags stays empty, and so does one whole feature.
    """
    share = call.scales("features", ("F", 1)) * call.scales("bags", ("F", "Bt"), spread=0.75)
    share[call.uniform("empty", ("F", "Bt"), dtype=torch.float32) < 1 / 4] = 0
    share[int(call.integers("unused", (), low=0, high=call.dims["F"]))] = 0
    # Whole numbers: GPUs add floating ones in an order that may change from one time to the next.
    ends = (share.flatten().double() * 2**20).long().cumsum(0).double()
    places = call.uniform("places", ("T",), dtype=torch.float32).double() * ends[-1]
    return torch.bincount(torch.searchsorted(ends, places, right=True), minlength=len(ends))
