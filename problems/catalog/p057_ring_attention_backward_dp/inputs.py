"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.groups import contiguous, strided
from problems.values import Arguments, Call

_SHAPE = ("B", "S_local", "num_heads", "head_dim")


def make_inputs(call: Call) -> Arguments:
    """`dout`, `q`, `k`, `v`; `out` and `softmax_lse` as the forward pass over the whole sequence leaves them; scalars.

    Whether attention is causal and how it is scaled is drawn anew for every call.
    """
    cp = call.dims["cp_size"]
    coin, other, factor = call.uniform("options", (3,), dtype=torch.float64, shared=True).tolist()
    causal = coin < 1 / 2
    softmax_scale = None if other < 1 / 2 else call.dims["head_dim"] ** -0.5 * (0.75 + 0.5 * factor)
    out, lse = _forward(call, causal=causal, scale=softmax_scale or call.dims["head_dim"] ** -0.5)
    return {
        "dout": _from_out(call),
        "q": _queries(call),
        "k": call.normal("k", _SHAPE),
        "v": call.long_tailed("v", _SHAPE),
        "out": out,
        "softmax_lse": lse,
        "softmax_scale": softmax_scale,
        "causal": causal,
        "cp_group": contiguous(call.rank, world_size=call.world_size, group_size=cp),
        "dp_group": strided(call.rank, world_size=call.world_size, group_size=call.dims["dp_size"]),
    }


def _from_out(call: Call) -> Tensor:
    """Channels differ widely in scale, which one 8-bit scale per row cannot hold, and so do those of dv."""
    channels = call.scales("dout channels", (1, 1, "num_heads", "head_dim"), shared=True)
    return call.normal("dout", _SHAPE, dtype=torch.float32).mul_(channels).to(call.dtype)


def _queries(call: Call) -> Tensor:
    """Heads differ in how sharply they attend."""
    sharpness = call.uniform("sharpness", (1, 1, "num_heads", 1), high=1.0, dtype=torch.float32, shared=True).exp2_()
    return call.normal("q", _SHAPE, dtype=torch.float32).mul_(sharpness).to(call.dtype)


def _forward(call: Call, *, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """`out` in the run's dtype and `softmax_lse` (B, num_heads, S_local) in float32, one head at a time."""
    cp = call.dims["cp_size"]
    first = call.rank // cp * cp
    ranks = range(first, call.rank + 1 if causal else first + cp)
    peers = [call.at_rank(rank) for rank in ranks]
    keys = torch.cat([peer.normal("k", _SHAPE) for peer in peers], dim=1)
    values = torch.cat([peer.long_tailed("v", _SHAPE) for peer in peers], dim=1)
    queries, outs, lses = _queries(call), [], []
    for head in range(call.dims["num_heads"]):
        q, k, v = (tensor[:, :, head].float() for tensor in (queries, keys, values))
        scores = q @ k.transpose(1, 2) * scale
        if causal:
            later = torch.ones(scores.shape[1:], dtype=torch.bool, device=call.device)
            scores.masked_fill_(later.triu(1 + k.shape[1] - q.shape[1]), -torch.inf)
        lses.append(scores.logsumexp(dim=-1))
        outs.append(scores.softmax(dim=-1) @ v)
    return torch.stack(outs, dim=2).to(call.dtype), torch.stack(lses, dim=1)
