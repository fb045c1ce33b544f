"""Arguments of one rank for one call."""

from math import copysign

import torch

from problems.inputs.copying import copies, odd_values, picking
from problems.inputs.regime_values import LARGEST, SMALLEST, magnitude, unequal_sizes
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`hidden_states` (B, S_local, H), the two weights, no group, the number of heads, False.

    Queries have standard deviation 2 and keys 1, so the scaled scores have 2: a few heads decide, none alone.
    One value channel per head is an outlier, as in trained models.
    """
    if copies(call):
        return _copying(call)
    if call.setting("scores", None) is not None:
        return _alike(call)
    hidden = call.dims["H"]
    # Where regimes have more heads, there would be much to draw: columns of w_qkv and rows of w_o repeat themselves.
    rows = call.dims.get("head_size", hidden)
    times = hidden // rows
    queries = call.normal("queries", ("H", rows), std=2 * hidden**-0.5, dtype=torch.float32, shared=True)
    keys = call.normal("keys", ("H", rows), std=hidden**-0.5, dtype=torch.float32, shared=True)
    values = call.normal("values", ("H", rows), std=hidden**-0.5, dtype=torch.float32, shared=True)
    values *= _channel_scales(call) * magnitude(call)
    # Powers of two: what comes out of the projection, or scores, are the same.
    tokens, zeros = call.setting("tokens", None), call.setting("zeros", None)
    larger = unequal_sizes(call, "H") if tokens == "unequal" else SMALLEST if tokens == "tiny" else 1.0
    if tokens == "queries":
        queries *= LARGEST
        keys /= LARGEST
    if zeros == "first head":
        values.view(call.world_size, call.dims["num_heads"] // call.world_size, -1)[:, 0] = 0.0
    hidden_states = call.normal("hidden_states", ("B", "S_local", "H")).mul_(larger)
    w_o = call.normal("w_o", (rows, "H"), std=hidden**-0.5, shared=True).repeat(times, 1)
    return {
        "hidden_states": torch.zeros_like(hidden_states) if zeros == "hidden_states" else hidden_states,
        "w_qkv": torch.cat([queries, keys, values]).to(call.dtype).repeat(1, times).div_(larger),
        "w_o": w_o / magnitude(call) if call.setting("values", None) == "tiny" else w_o,
        **_choices(call),
    }


def _copying(call: Call) -> Arguments:
    """Queries are zero, so that heads weigh alike, and of the heads that meet, one has a value in each channel."""
    heads, hidden = call.dims["num_heads"], call.dims["H"]
    meeting, size = heads // call.world_size, hidden // heads
    chosen = call.integers("regime's head", (call.world_size, 1, size), low=0, high=meeting, shared=True)
    has_value = torch.arange(meeting, device=call.device).view(1, -1, 1) == chosen
    values = picking(call, "values", ("H", "H"), shared=True) * has_value.reshape(-1, 1)
    keys = call.normal("keys", ("H", "H"), std=hidden**-0.5, shared=True)
    return {
        "hidden_states": odd_values(call, "hidden_states", ("B", "S_local", "H")),
        "w_qkv": torch.cat([torch.zeros_like(keys), keys, values]),
        "w_o": picking(call, "w_o", ("H", "H"), shared=True),
        **_choices(call),
    }


def _alike(call: Call) -> Arguments:
    """Queries and keys are the same for all heads and positions, so that every score is the number of the regime.

    If it is above zero, scores are that for keys of the last half of the heads that meet, masked for queries of the
    others where causal, and three quarters of it for other keys. If below, queries may change their sign in turn.
    """
    heads, hidden, score = call.dims["num_heads"], call.dims["H"], call.setting("scores", 0.0)
    factor = (abs(score) * (hidden // heads) ** 0.5) ** 0.5
    tokens = call.normal("hidden_states", ("B", "S_local", "H"))
    tokens[..., -1] = 1.0
    queries, keys = torch.zeros(2, hidden, hidden, dtype=call.dtype, device=call.device)
    meeting = torch.arange(heads, device=call.device) % (heads // call.world_size)
    is_less = (2 * meeting <= heads // call.world_size - 1) & (score > 0)
    is_turned = (meeting % 2 == 0) & (call.setting("heads", None) == "in turn")
    queries[:: hidden // heads, -1] = factor * (1 - 2 * is_turned.int())
    keys[:: hidden // heads, -1] = copysign(factor, score) * (1 - is_less / 4)
    values = call.normal("values", ("H", "H"), std=hidden**-0.5, shared=True)
    return {
        "hidden_states": tokens,
        "w_qkv": torch.cat([queries, keys, values]),
        "w_o": call.normal("w_o", ("H", "H"), std=hidden**-0.5, shared=True),
        **_choices(call),
    }


def _choices(call: Call) -> Arguments:
    """The arguments that are no tensors."""
    causal = call.setting("causal", usual=call.setting("heads", None) == "masked")
    return {"group": None, "num_heads": call.dims["num_heads"], "causal": causal}


def _channel_scales(call: Call) -> torch.Tensor:
    """Factors (H, 1) of the value channels: 16 for one drawn channel of each head, 1 for the others."""
    heads = call.dims["num_heads"]
    size = call.dims["H"] // heads
    outliers = call.integers("outliers", (heads, 1), low=0, high=size, shared=True)
    is_outlier = torch.arange(size, device=call.device) == outliers
    return torch.where(is_outlier, 16.0, 1.0).view(-1, 1)
