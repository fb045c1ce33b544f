"""Arguments of one rank for one call."""

from problems.families.sampling_filters import chunk_size, shard, tokens
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
        "chunk_size": chunk_size(call),
    }
