"""Arguments of one rank for one call."""

import torch

from problems.delayed_scaling import histories
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`flat_param_shard` (P) and an `amax_history` (16) to match.

    Tails are long enough for one int8 scale to lose more than e4m3 does, and short enough for a single element on the
    other side of a tie to matter little. The rank's own scale is near 1, so that no rank drowns another.
    """
    scale = call.uniform("scale", (1,), low=-0.5, high=0.5, dtype=torch.float32).exp2_()
    values = call.normal("flat_param_shard", ("P",), dtype=torch.float32).mul_(call.scales("tails", ("P",), spread=0.6))
    shard = values.mul_(scale).to(call.dtype)
    return {"flat_param_shard": shard, "amax_history": histories(call, shard)}
