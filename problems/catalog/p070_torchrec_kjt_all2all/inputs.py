"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

LARGEST_ID = 1_000_000


def make_inputs(call: Call) -> Arguments:
    """`lengths` (F * Bt,) and `values` (T,) of all features, and how many features each rank owns."""
    return {
        "lengths": _lengths(call),
        "values": _values(call),
        "key_splits": key_splits(call),
        "batch_size": call.dims["Bt"],
        "pg": None,
        "weights": None,
        "stride_per_key": None,
        "stagger": 1,
    }


def _values(call: Call) -> Tensor:
    """Numbers (T,) below a million; in a regime a few of the smallest or of the largest."""
    numbers = call.integers("values", ("T",), low=0, high=call.setting("largest", LARGEST_ID))
    return LARGEST_ID - 1 - numbers if call.setting("end", None) == "high" else numbers


def key_splits(call: Call) -> list[int]:
    """Features per rank: 1, 2, 3, 1, 2, 3, ... or the same from the last rank on, or one each and the rest on one.

    In one regime ranks may also own as many as one another, but for one.
    """
    splits = [1 + rank % 3 for rank in range(call.world_size)]
    kind = call.setting("splits", None)
    if kind == "one_has_most":
        most = call.dims["F"] - call.world_size + 1
        return [most if rank == owner(call) else 1 for rank in range(call.world_size)]
    if kind == "even":
        whole, more = divmod(call.dims["F"], call.world_size)
        return [whole + (rank < more) for rank in range(call.world_size)]
    return splits[::-1] if kind == "reversed" else splits


def _lengths(call: Call) -> Tensor:
    """Values per bag, features first: T values fall into bags of log-normal attraction, those of a feature alike.

    A quarter of the bags stays empty, and so does one whole feature.
    """
    if call.setting("bags", None) == "one":
        lengths = torch.zeros(call.shape(("bags",)), dtype=torch.int64, device=call.device)
        lengths[int(call.integers("regime's bag", (), low=0, high=call.dims["bags"]))] = call.dims["T"]
        return lengths
    share = call.scales("features", ("F", 1)) * call.scales("bags", ("F", "Bt"), spread=0.75)
    if call.setting("bags", None) == "one_feature":
        is_it = torch.arange(call.dims["F"], device=call.device) == _feature(call)
        share = share * is_it[:, None]
        return _dealt(call, share)
    share[call.uniform("empty", ("F", "Bt"), dtype=torch.float32) < 1 / 4] = 0
    share[int(call.integers("unused", (), low=0, high=call.dims["F"]))] = 0
    return _dealt(call, share)


def _feature(call: Call) -> int:
    """The feature that a regime singles out, the same on all ranks."""
    return int(call.integers("regime's feature", (), low=0, high=call.dims["F"], shared=True))


def _dealt(call: Call, share: Tensor) -> Tensor:
    """T values dealt to the bags (F * Bt,) by their shares (F, Bt)."""
    # Whole numbers: GPUs add floating ones in an order that may change from one time to the next.
    if call.regime is not None and not share.any():  # few bags, which all stay empty: the last one takes all
        share[-1, -1] = 1
    ends = (share.flatten().double() * 2**20).long().cumsum(0).double()
    places = call.uniform("places", ("T",), dtype=torch.float32).double() * ends[-1]
    return torch.bincount(torch.searchsorted(ends, places, right=True), minlength=len(ends))
