"""Arguments of one rank for one call."""

import torch

from problems.inputs.copied_values import copied
from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

LEAST = 2.0**-133
"""The least number above zero in bfloat16; 127 of it are still subnormal."""
RANGE = 32.0
"""How far the values of a rank reach where ranks have ranges of their own; as much is free between two of them."""


def make_inputs(call: Call) -> Arguments:
    """`local_shard` (n), and no group.

    All ranks draw from one distribution, so that every rank's values are wanted by all others. A quarter are whole
    numbers from -3 to 3, one of them in common use: ties by the hundred. The rest are long-tailed and symmetric.
    """
    count = lengths(call)[call.rank]
    spread = call.long_tailed("values", (count,), std=10.0, dtype=torch.float32)
    ties = call.normal("ties", (count,), dtype=torch.float32).round_()
    is_tie = call.uniform("which", (count,), dtype=torch.float32) < 1 / 4
    values = torch.where(is_tie, ties, spread).to(call.dtype)
    if call.setting("infinite", usual=False):
        chance = call.uniform("which are infinite", (count,), dtype=torch.float32)
        values = values.masked_fill(chance < 1 / 8, torch.inf).masked_fill(chance > 7 / 8, -torch.inf)
        number = call.integers("subnormal", (count,), low=-99, high=100)
        most = torch.finfo(call.dtype).max
        extreme = torch.where(number.abs() > 96, number.sign() * most, number.double() * LEAST)
        values = values.where((chance - 1 / 2).abs() >= 1 / 8, extreme.to(call.dtype))
    if equal := call.setting("equal", usual=False):
        one = torch.full_like(values, float(call.integers("the one value", (), low=-3, high=4, shared=True)))
        chance = call.uniform("which are equal", (count,), dtype=torch.float32)
        values = one.where(chance < 3 / 4, values) if equal == "most" else one
    if call.setting("ranges", None) == "apart":
        place = int(call.permutation("regime's ranges", call.world_size, shared=True)[call.rank])
        values = (values.float().remainder(RANGE) + 2 * RANGE * place).to(call.dtype)
    if call.setting("ranges", None) == "ordered":  # By their ends alone these look sorted over all ranks.
        values = values.clamp(-RANGE, RANGE).sort().values
        values[-1:] = 2 * RANGE + call.rank
        values[:1] = -2 * RANGE + call.rank
    return {"local_shard": copied(call, "local_shard", values), "group": None}


def lengths(call: Call) -> list[int]:
    """The length of every rank's shard.

    Equal where the size fixes `n`. Elsewhere drawn for every call: one rank has nothing, the others between 1 and
    3 parts of `total`, which is not a multiple of the world size.
    """
    shares = call.setting("shares", None)
    total = call.dims["n"] * call.world_size if "n" in call.dims else call.dims["total"]
    mean: int | None = call.setting("values_on_average", None)
    if mean is not None:
        total = mean * call.world_size + int(call.integers("rest", (), low=0, high=call.world_size, shared=True))
    few: int | None = call.setting("values_per_rank", None)
    if few is not None:
        total = few * call.world_size + int(call.integers("few more", (), low=0, high=call.world_size, shared=True))
    if shares == "one_has_all":
        return [total if rank == owner(call) else 0 for rank in range(call.world_size)]
    if shares == "one_has_most":
        return [total - call.world_size + 1 if rank == owner(call) else 1 for rank in range(call.world_size)]
    if shares == "equal":
        total -= total % call.world_size * (call.setting("ranges", None) == "ordered")
        return [total // call.world_size + (rank < total % call.world_size) for rank in range(call.world_size)]
    if few is not None:
        least = 1 if shares == "nobody_is_empty" else 0
        ranks = call.integers("few", (total - least * call.world_size,), low=0, high=call.world_size, shared=True)
        return (ranks.bincount(minlength=call.world_size) + least).tolist()
    if "n" in call.dims and shares is None and mean is None:
        return [call.dims["n"]] * call.world_size
    weights = call.uniform("lengths", (call.world_size,), low=1.0, high=3.0, dtype=torch.float64, shared=True)
    if shares is None:
        weights[int(call.integers("empty", (1,), low=0, high=call.world_size, shared=True))] = 0
    ends = (weights.cumsum(0) / weights.sum() * total).round().long()
    return ends.diff(prepend=ends.new_zeros(1)).tolist()
