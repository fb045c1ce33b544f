"""Arguments of one rank for one call."""

import torch

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`hidden_states` (num_tokens, hidden), equal on all ranks; `weight_shard` (local_vocab, hidden); `bias_shard`.

    Rows of the weight differ widely in length, so that a row of logits holds large and small ones, which one 8-bit
    scale cannot serve; the bias is as large as a typical logit.
    """
    weight = call.normal(
        "weight_shard", ("local_vocab", "hidden"), std=call.dims["hidden"] ** -0.5, dtype=torch.float32
    )
    return {
        "hidden_states": call.normal("hidden_states", ("num_tokens", "hidden"), shared=True),
        "weight_shard": weight.mul_(call.scales("rows", ("local_vocab", 1))).to(call.dtype),
        "bias_shard": call.normal("bias_shard", ("local_vocab",)),
    }
