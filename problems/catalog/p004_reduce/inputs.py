"""Arguments of one rank for one call."""

import torch

from problems.families.zero_edges import in_edges
from problems.inputs.regime_values import in_regime, owner
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`tensor` (M, N): long-tailed, times a scale of the rank's own between 1/2 and 2; `dst`: any rank."""
    scale = call.uniform("scale", (1, 1), low=-1, high=1, dtype=torch.float32).exp2_()
    tensor = call.long_tailed("tensor", ("M", "N"), dtype=torch.float32).mul_(scale)
    return {"tensor": in_edges(call, in_regime(call, "tensor", tensor.to(call.dtype))), "dst": destination(call)}


def destination(call: Call) -> int:
    """Any rank; where one rank alone has values, the one after it: the destination's result is all that is judged."""
    if call.setting("values", None) == "one_rank":
        return (owner(call) + 1) % call.world_size
    return int(call.integers("dst", (1,), low=0, high=call.world_size, shared=True))
