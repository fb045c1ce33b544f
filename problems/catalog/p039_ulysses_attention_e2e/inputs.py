"""Arguments of one rank for one call."""

import torch

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
    values *= _channel_scales(call)
    return {
        "hidden_states": call.normal("hidden_states", ("B", "S_local", "H")),
        "w_qkv": torch.cat([queries, keys, values]).to(call.dtype),
        "w_o": call.normal("w_o", ("H", "H"), std=hidden**-0.5, shared=True),
        "group": None,
        "num_heads": call.dims["num_heads"],
        "causal": False,
    }


def _channel_scales(call: Call) -> torch.Tensor:
    """Factors (H, 1) of the value channels: 16 for one drawn channel of each head, 1 for the others."""
    size = call.dims["H"] // call.dims["num_heads"]
    outliers = call.integers("outliers", ("num_heads", 1), low=0, high=size, shared=True)
    is_outlier = torch.arange(size, device=call.device) == outliers
    return torch.where(is_outlier, 16.0, 1.0).view(-1, 1)
