"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families import attention
from problems.inputs.regime_values import in_regime, owner
from problems.inputs.values import Arguments, Call

_SHAPE = ("B", "S_local", "num_heads", "head_dim")
_LIGHTER, _LARGER = 9.0, 2.0**13
"""What a regime takes from scores, at the default scale, of one rank's keys, and by what it multiplies its values."""


def make_inputs(call: Call) -> Arguments:
    """`q`, `k`, `v` (B, S_local, num_heads, head_dim), the scale, causal and no group.

    Heads differ in how sharply they attend, from even to picking a few keys, so that a missing block shows whether
    it is averaged over or singled out.
    """
    sharpness = call.uniform("sharpness", (1, 1, "num_heads", 1), high=2.0, dtype=torch.float32, shared=True).exp2_()
    q = call.normal("q", _SHAPE, dtype=torch.float32).mul_(sharpness).to(call.dtype)
    k, v = keys_and_values(call)
    return {
        "q": attention.in_score_regime(call, _far(call, q)),
        "k": k,
        "v": v,
        "softmax_scale": attention.draw_scale(call, call.dims["head_dim"]),
        "causal": call.setting("causal", usual=True),
        "group": None,
    }


def keys_and_values(call: Call) -> tuple[Tensor, Tensor]:
    """The rank's `k` and `v`, all that later ranks need of it."""
    k, v = call.normal("k", _SHAPE), call.long_tailed("v", _SHAPE)
    zeros = call.setting("zeros", None)
    if zeros in ("k", "k and v"):
        return torch.zeros_like(k), v if zeros == "k" else torch.zeros_like(v)
    if zeros == "first v":
        v[:, 0] = 0.0
    else:
        v = in_regime(call, "v", v)
    k = attention.in_score_regime(call, _far(call, k, are_keys=True), are_keys=True)
    if call.setting("light", None) is not None and call.rank == owner(call):
        k[..., 0] *= 1 - _LIGHTER / call.setting("added", 0.0)
        v *= _LARGER
    return k, v


def _far(call: Call, tensor: Tensor, *, are_keys: bool = False) -> Tensor:
    """Queries or keys (B, S_local, num_heads, head_dim); in a regime some queries attend to one rank's keys alone.

    The scores of these pairs lie far above all others. Other queries weigh keys as they always do.
    """
    if (far := call.setting("far", None)) is None:
        return tensor
    factor = (call.setting("added", 0.0) * call.dims["head_dim"] ** 0.5) ** 0.5
    if are_keys:
        tensor[..., 0] = factor if call.rank == owner(call) else 0.0
    elif far == "heads":
        tensor[..., 0] = 0.0
        tensor[:, :, ::2, 0] = factor
    else:
        tensor[..., 0] = 0.0
        tensor[:, ::2, :, 0] = factor
    return tensor
