"""Arguments of one rank for one call."""

import torch

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`vocab_parallel_logits` (B, S, Vl), `target` (B, S) int64, and no group.

    The offset per token overflows the exponential in float32 unless a maximum is subtracted; being the same on all
    ranks it leaves the loss what it is. Tokens differ in how sure the model is, by a log-normal spread of their logits.
    """
    offset = call.integers("offset", ("B", "S", 1), low=-120, high=121, dtype=torch.int32, shared=True)
    spread = call.normal("spread", ("B", "S", 1), dtype=torch.float32, std=1.3, shared=True).exp_().mul_(3.0)
    logits = call.normal("vocab_parallel_logits", ("B", "S", "Vl"), dtype=torch.float32)
    return {
        "vocab_parallel_logits": logits.mul_(spread).add_(offset).to(call.dtype),
        "target": call.integers("target", ("B", "S"), low=0, high=call.dims["V"], shared=True),
        "group": None,
    }
