"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.sampling_filters import chunk_size, shard, tokens
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Logits (B, S, Vl), targets and incoming gradients (B, S), no group, the filters and the chunk size."""
    drawn = tokens(call)
    return {
        "vocab_parallel_logits": shard(call, drawn).view(call.shape(("B", "S", "Vl"))),
        "target": drawn.target.view(call.shape(("B", "S"))),
        "grad_output": incoming_gradients(call),
        "tp_group": None,
        "top_k": drawn.top_k,
        "top_p": drawn.top_p,
        "chunk_size": chunk_size(call),
    }


def incoming_gradients(call: Call) -> Tensor:
    """Gradients (B, S) of the log-probabilities; they differ in size from token to token, as advantages do."""
    gradient = call.normal("grad_output", ("B", "S"), dtype=torch.float32, shared=True)
    size = call.uniform("grad_output size", ("B", "S"), low=-1.0, high=1.0, dtype=torch.float32, shared=True).exp2_()
    return (gradient * size * float(call.setting("gradients", 1.0))).bfloat16()
