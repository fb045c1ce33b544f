"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`indices` (M,) into a table of W * M rows, and `local_shard` (M, N), the rank's rows of it."""
    return {"indices": _requests(call), "local_shard": call.normal("local_shard", ("M", "N"))}


def _requests(call: Call) -> Tensor:
    """Row numbers that are neither evenly spread over owners nor over an owner's rows.

    W - 1 random cuts give every owner a share, another one for each asking rank. Within an owner the density falls
    with the power -2/3 of a row's distance from a popular row at a secret place, the same for all ranks.
    """
    rows = call.dims["M"]
    cuts = call.uniform("cuts", (call.world_size - 1,), dtype=torch.float32).sort().values
    owner = torch.searchsorted(cuts, call.uniform("owners", ("M",), dtype=torch.float32))
    popular = call.integers("popular", (call.world_size,), low=0, high=rows, shared=True)
    distance = call.uniform("distances", ("M",), dtype=torch.float32).pow_(3).mul_(rows).long()
    return owner * rows + (popular[owner] + distance) % rows
