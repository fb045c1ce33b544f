"""Arguments of one rank for one call."""

from collections.abc import Sequence

import torch
from torch import Tensor

from problems.families import attention
from problems.inputs.copying import copies, odd_values
from problems.inputs.groups import contiguous, strided
from problems.inputs.regime_values import LARGEST, in_regime, owner
from problems.inputs.values import Arguments, Call

_SHAPE = ("B", "S_local", "num_heads", "head_dim")
_RARE = 1 - 12 / 150
"""Of the channel of keys that adds 150 to scores: 12 less, and a weight of about `_WEIGHT`."""
_WEIGHT = 2.0**-17


def make_inputs(call: Call) -> Arguments:
    """`dout`, `q`, `k`, `v`; `out` and `softmax_lse` as the forward pass over the whole sequence leaves them; scalars.

    Whether attention is causal and how it is scaled is drawn anew for every call.
    """
    cp = call.dims["cp_size"]
    causal, softmax_scale = options(call)
    first = call.rank // cp * cp
    seen = range(first, call.rank + 1 if causal else first + cp)
    shards = [keys_and_values(call.at_rank(rank)) for rank in seen]
    k, v = shards[call.rank - first]
    q = queries(call)
    scale = softmax_scale or call.dims["head_dim"] ** -0.5
    out, lse = forward(q, shards, causal=causal, scale=scale, far=attention.are_far(call))
    return {
        "dout": from_out(call),
        "q": q,
        "k": k,
        "v": v,
        "out": out,
        "softmax_lse": lse,
        "softmax_scale": softmax_scale,
        "causal": causal,
        "cp_group": contiguous(call.rank, world_size=call.world_size, group_size=cp),
        "dp_group": strided(call.rank, world_size=call.world_size, group_size=call.dims["dp_size"]),
    }


def options(call: Call) -> tuple[bool, float | None]:
    """`causal` and `softmax_scale`."""
    coin, other, factor = call.uniform("options", (3,), dtype=torch.float64, shared=True).tolist()
    part = call.setting("softmax_scale", None if other < 1 / 2 else 0.75 + 0.5 * factor)
    return call.setting("causal", usual=coin < 1 / 2), None if part is None else call.dims["head_dim"] ** -0.5 * part


def from_out(call: Call) -> Tensor:
    """`dout`: channels differ widely in scale, which one 8-bit scale per row cannot hold, and so do those of dv."""
    if copies(call):
        return _last_of_one_replica(call)
    drawn = call.normal("dout", _SHAPE, dtype=torch.float32).mul_(_channels(call))
    if (zeros := call.setting("zeros", "dout")) == "first dout":
        drawn[:, 0] = 0.0
    return in_regime(call, "dout", drawn.to(call.dtype)) if zeros == "dout" else drawn.to(call.dtype)


def _channels(call: Call) -> Tensor:
    """How large the channels of `dout` are."""
    return call.scales("dout channels", (1, 1, "num_heads", "head_dim"), shared=True)


def channel_sizes(call: Call) -> dict[str, Tensor]:
    """By gradient, about how large its channels are beside each other (1, 1, num_heads or 1, head_dim).

    A gradient whose channels are alike is left out.
    """
    if copies(call):
        return {}
    sizes = {"dv": _channels(call)}
    if call.setting("scores", None) is not None:
        # The channel that adds the same to all scores multiplies those of dq in all keys, those of dk in all queries.
        for name in ("dq", "dk"):
            sizes[name] = torch.ones(1, 1, 1, call.dims["head_dim"], device=call.device)
            factor = attention.common_factor(call, call.dims["head_dim"], are_keys=name == "dq")
            sizes[name][..., 0] = abs(factor)
    return sizes


def queries(call: Call) -> Tensor:
    """`q`, whose heads differ in how sharply they attend."""
    if copies(call):
        return torch.zeros(call.shape(_SHAPE), dtype=call.dtype, device=call.device)
    sharpness = call.uniform("sharpness", (1, 1, "num_heads", 1), high=1.0, dtype=torch.float32, shared=True).exp2_()
    drawn = call.normal("q", _SHAPE, dtype=torch.float32).mul_(sharpness).to(call.dtype)
    return torch.zeros_like(drawn) if call.setting("zeros", None) == "q" else attention.in_score_regime(call, drawn)


def keys_and_values(call: Call) -> tuple[Tensor, Tensor]:
    """`k` and `v`; in a regime some keys have a small weight and as much larger values."""
    keys = call.normal("k", _SHAPE)
    are_zero = copies(call) or call.setting("zeros", None) == "k"
    keys = torch.zeros_like(keys) if are_zero else attention.in_score_regime(call, keys, are_keys=True)
    values = call.long_tailed("v", _SHAPE)
    rare = _rare(call)
    keys[:, rare, :, 0] *= _RARE
    values[:, rare] /= _WEIGHT
    return keys, values * LARGEST if call.setting("keys", None) == "huge" else values


def _rare(call: Call) -> slice:
    """Which of the rank's keys have a small weight: in a regime every second, and if there is a ring all of a rank."""
    if call.setting("second_keys", None) is None:
        return slice(0)
    cp = call.dims["cp_size"]
    return slice(None) if cp > 1 and call.rank % cp == owner(call) % cp else slice(1, None, 2)


def _last_of_one_replica(call: Call) -> Tensor:
    """`dout` of the last position, of which every element is zero on all replicas but one; else zeros."""
    dout = torch.zeros(call.shape(_SHAPE), dtype=call.dtype, device=call.device)
    replica, context = divmod(call.rank, call.dims["cp_size"])
    if context == call.dims["cp_size"] - 1:
        shape = ("B", "num_heads", "head_dim")
        source = call.integers("regime's replicas", shape, low=0, high=call.dims["dp_size"], shared=True)
        dout[:, -1] = odd_values(call, "dout", shape) * (source == replica)
    return dout


def forward(
    q: Tensor, shards: Sequence[tuple[Tensor, Tensor]], *, causal: bool, scale: float, far: bool
) -> tuple[Tensor, Tensor]:
    """`out` in the dtype of `q` and `softmax_lse` (B, num_heads, S_local) in float32, each rounded once.

    `shards` are the keys and values that the queries see: those of all context ranks; up to their own rank if causal.
    """
    keys, values = (attention.by_head(torch.cat(parts, dim=1)) for parts in zip(*shards, strict=True))
    out, lse = attention.attend(attention.by_head(q), keys, values, scale=scale, causal=causal, far=far)
    heads = q.shape[2]
    return attention.by_position(out.to(q.dtype), heads=heads).contiguous(), lse.unflatten(0, (-1, heads)).float()
