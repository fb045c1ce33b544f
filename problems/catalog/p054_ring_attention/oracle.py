"""What each rank owes, in float64, without a ring: its queries against all earlier keys."""

import torch
from torch import Tensor

from problems.catalog.p054_ring_attention.inputs import make_inputs
from problems.values import Call

_SCORES = 1 << 27
"""Scores held at a time: 1 GiB in float64."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, S_local, num_heads, head_dim): softmax attention over positions up to each query's own."""
    own = make_inputs(call)
    earlier = [make_inputs(call.at_rank(rank)) for rank in range(call.rank + 1)]
    keys, values = (torch.cat([each[name] for each in earlier], dim=1) for name in ("k", "v"))
    scale = own["softmax_scale"] or call.dims["head_dim"] ** -0.5
    heads = [
        _attend(own["q"][batch, :, head], keys[batch, :, head], values[batch, :, head], scale=scale)
        for batch in range(call.dims["B"])
        for head in range(call.dims["num_heads"])
    ]
    out = torch.stack(heads).view(call.shape(("B", "num_heads", "S_local", "head_dim")))
    return (out.transpose(1, 2).contiguous(),)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
    """One head in float64, by blocks of queries: queries (S_local, d) are the last positions of keys, values (S, d)."""
    keys, values = keys.double(), values.double()
    first = keys.shape[0] - queries.shape[0]
    positions = torch.arange(keys.shape[0], device=keys.device)
    out = []
    for start in range(0, queries.shape[0], max(1, _SCORES // keys.shape[0])):
        block = queries[start : start + max(1, _SCORES // keys.shape[0])].double()
        scores = block @ keys.T * scale
        seen_until = first + start + torch.arange(block.shape[0], device=keys.device)
        scores.masked_fill_(positions > seen_until.unsqueeze(1), -torch.inf)
        out.append(scores.softmax(dim=-1) @ values)
    return torch.cat(out)
