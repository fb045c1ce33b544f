"""Arguments of one rank for one call."""

from problems.families.delayed_scaling import draw, histories
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`flat_param_shard` (P) and an `amax_history` (16) to match."""
    shard = draw(call, "flat_param_shard", ("P",))
    return {"flat_param_shard": shard, "amax_history": histories(call, shard)}
