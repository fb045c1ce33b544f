"""Arguments of one rank for one call."""

from math import gcd

from problems.families.sampling_filters import shard, tokens
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Logits (B, S, Vl) of the rank's columns, targets (B, S), no group, the filters and the chunk size."""
    drawn = tokens(call)
    return {
        "vocab_parallel_logits": shard(call, drawn).view(call.shape(("B", "S", "Vl"))),
        "target": drawn.target.view(call.shape(("B", "S"))),
        "tp_group": None,
        "top_k": drawn.top_k,
        "top_p": drawn.top_p,
        "chunk_size": _chunk_size(call),
    }


def _chunk_size(call: Call) -> int:
    """That of the size; or the number of ranks; or the least with which W divides the tokens of a chunk."""
    style, world_size, batch = call.setting("chunk", None), call.world_size, call.dims["B"]
    if style == "least":
        return 0 if batch % world_size == 0 else world_size // gcd(world_size, batch)
    return world_size if style == "small" else call.dims["cs"]
