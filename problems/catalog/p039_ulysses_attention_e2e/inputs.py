"""Arguments of one rank for one call."""

import torch

from problems.regime_values import magnitude
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`hidden_states` (B, S_local, H), the two weights, no group, the number of heads, False.

    Queries have standard deviation 2 and keys 1, so the scaled scores have 2: a few heads decide, none alone.
    One value channel per head is an outlier, as in trained models.
    """
    hidden = call.dims["H"]
    queries = call.normal("queries", ("H", "H"), std=2 * hidden**-0.5, dtype=torch.float32, shared=True)
    keys = call.normal("keys", ("H", "H"), std=hidden**-0.5, dtype=torch.float32, shared=True)
    values = call.normal("values", ("H", "H"), std=hidden**-0.5, dtype=torch.float32, shared=True)
    values *= _channel_scales(call) * magnitude(call)
    hidden_states = call.normal("hidden_states", ("B", "S_local", "H"))
    return {
        "hidden_states": torch.zeros_like(hidden_states) if call.setting("values", None) == "zero" else hidden_states,
        "w_qkv": torch.cat([queries, keys, values]).to(call.dtype),
        "w_o": call.normal("w_o", ("H", "H"), std=hidden**-0.5, shared=True),
        "group": None,
        "num_heads": number_of_heads(call),
        "causal": call.setting("causal", usual=False),
    }


def number_of_heads(call: Call) -> int:
    """As many as the size has; in a regime twice as many."""
    return call.dims["num_heads"] * int(call.setting("times_heads", 1))


def _channel_scales(call: Call) -> torch.Tensor:
    """Factors (H, 1) of the value channels: 16 for one drawn channel of each head, 1 for the others."""
    heads = number_of_heads(call)
    size = call.dims["H"] // heads
    outliers = call.integers("outliers", (heads, 1), low=0, high=size, shared=True)
    is_outlier = torch.arange(size, device=call.device) == outliers
    return torch.where(is_outlier, 16.0, 1.0).view(-1, 1)
