"""The expected outputs: its own queries against all ranks' keys, in float64."""

import torch
from torch import Tensor

from problems.catalog.p077_magi1_cso_async_attention.inputs import keys_and_values, make_inputs, ranges_and_clip
from problems.families import attention
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (T, Hq, hd): the rank's tokens, all heads."""
    arguments = make_inputs(call)
    # To heads of keys, all queries are alike that share one: they count as further positions.
    length = call.dims["T"] // arguments["cp_shuffle_num"]
    groups = (length, call.dims["Hkv"], call.dims["Hq"] // call.dims["Hkv"], call.dims["hd"])
    queries = [part.view(groups).transpose(0, 1).flatten(1, 2) for part in arguments["query"].split(length)]
    keys, values = _key_axis(call).chunk(2, dim=2)
    out = []
    for block, (start, end) in zip(queries, arguments["k_ranges"].tolist(), strict=True):
        seen = keys[:, start:end], values[:, start:end]
        attended, _ = attention.attend(block.double(), *seen, scale=call.dims["hd"] ** -0.5, causal=False)
        out.append(attended.unflatten(1, (groups[0], groups[2])).transpose(0, 1).flatten(1, 2))
    return (torch.cat(out),)


def _key_axis(call: Call) -> Tensor:
    """Keys and values (Hkv, ranges * clip, 2 hd) of all ranks in float64: of every range the first clip tokens."""
    ranks, (parts, clip) = range(call.world_size), ranges_and_clip(call)
    by_range = [keys_and_values(call.at_rank(rank)).unflatten(0, (parts, -1)) for rank in ranks]
    tokens = torch.cat(by_range, dim=1)[:, :clip].flatten(0, 1)
    return attention.by_head(tokens.unsqueeze(0))
