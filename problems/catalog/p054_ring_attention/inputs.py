"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.values import Arguments, Call

_SHAPE = ("B", "S_local", "num_heads", "head_dim")


def make_inputs(call: Call) -> Arguments:
    """`q`, `k`, `v` (B, S_local, num_heads, head_dim), the scale, causal and no group.

    Heads differ in how sharply they attend, from even to picking a few keys, so that a missing block shows whether
    it is averaged over or singled out.
    """
    sharpness = call.uniform("sharpness", (1, 1, "num_heads", 1), high=2.0, dtype=torch.float32, shared=True).exp2_()
    coin, factor = call.uniform("softmax_scale", (2,), dtype=torch.float64, shared=True).tolist()
    k, v = keys_and_values(call)
    return {
        "q": call.normal("q", _SHAPE, dtype=torch.float32).mul_(sharpness).to(call.dtype),
        "k": k,
        "v": v,
        "softmax_scale": None if coin < 1 / 2 else call.dims["head_dim"] ** -0.5 * (0.75 + 0.5 * factor),
        "causal": True,
        "group": None,
    }


def keys_and_values(call: Call) -> tuple[Tensor, Tensor]:
    """The rank's `k` and `v`, all that later ranks need of it."""
    return call.normal("k", _SHAPE), call.long_tailed("v", _SHAPE)
