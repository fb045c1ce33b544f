"""Arguments of one rank for one call."""

import torch

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`local_shard` (n), and no group.

    All ranks draw from one distribution, so that every rank's values are wanted by all others. A quarter are whole
    numbers from -3 to 3, one of them in common use: ties by the hundred. The rest are long-tailed and symmetric.
    """
    count = lengths(call)[call.rank]
    spread = call.long_tailed("values", (count,), std=10.0, dtype=torch.float32)
    ties = call.normal("ties", (count,), dtype=torch.float32).round_()
    is_tie = call.uniform("which", (count,), dtype=torch.float32) < 1 / 4
    return {"local_shard": torch.where(is_tie, ties, spread).to(call.dtype), "group": None}


def lengths(call: Call) -> list[int]:
    """The length of every rank's shard.

    Equal where the size fixes `n`. Elsewhere drawn for every call: one rank has nothing, the others between 1 and
    3 parts of `total`, which is not a multiple of the world size.
    """
    if "n" in call.dims:
        return [call.dims["n"]] * call.world_size
    weights = call.uniform("lengths", (call.world_size,), low=1.0, high=3.0, dtype=torch.float64, shared=True)
    weights[int(call.integers("empty", (1,), low=0, high=call.world_size, shared=True))] = 0
    ends = (weights.cumsum(0) / weights.sum() * call.dims["total"]).round().long()
    return ends.diff(prepend=ends.new_zeros(1)).tolist()
