"""What each rank owes: its own queries against all ranks' keys, in float64, one head at a time."""

import torch
from torch import Tensor

from problems.catalog.p077_magi1_cso_async_attention.inputs import make_inputs
from problems.values import Call

_SCORES = 1 << 26
"""Scores held at a time: half a gigabyte in float64."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (T, Hq, hd): the rank's tokens, all heads."""
    arguments = make_inputs(call)
    key_value = _key_axis(call)
    out = torch.empty(arguments["query"].shape, dtype=torch.float64, device=call.device)
    shared_by = call.dims["Hq"] // call.dims["Hkv"]
    own = call.dims["spb"]
    for place, (start, end) in enumerate(arguments["k_ranges"].tolist()):
        rows = slice(place * own, (place + 1) * own)
        for head in range(call.dims["Hq"]):
            keys, values = key_value[start:end, head // shared_by].double().chunk(2, dim=-1)
            out[rows, head] = _attend(arguments["query"][rows, head].double(), keys, values)
    return (out,)


def _key_axis(call: Call) -> Tensor:
    """Keys and values (ranges * clip, Hkv, 2 hd) of all ranks: of every range the first clip tokens."""
    ranks = [make_inputs(call.at_rank(rank))["key_value"] for rank in range(call.world_size)]
    by_range = [part.unflatten(0, (call.dims["ranges"], call.dims["spb"])) for part in ranks]
    return torch.cat(by_range, dim=1)[:, : call.dims["clip"]].flatten(0, 1)


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    step = max(1, _SCORES // len(keys))
    scale = queries.shape[-1] ** -0.5
    return torch.cat([(block @ keys.T * scale).softmax(dim=-1) @ values for block in queries.split(step)])
