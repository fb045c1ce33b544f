"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p073_vocab_parallel_cross_entropy_loss.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`loss` (B, S): log of the sum of exponentials over the whole vocabulary, less the target's logit.

    One shard at a time, so that the whole vocabulary is never in memory.
    """
    normaliser = torch.full(call.shape(("B", "S")), -torch.inf, dtype=torch.float64, device=call.device)
    wanted = torch.zeros_like(normaliser)
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        logits = arguments["vocab_parallel_logits"]
        normaliser = torch.logaddexp(normaliser, logits.double().logsumexp(dim=-1))
        column = arguments["target"] - rank * call.dims["Vl"]
        is_here = (column >= 0) & (column < call.dims["Vl"])
        picked = logits.gather(-1, column.clamp(0, call.dims["Vl"] - 1).unsqueeze(-1)).squeeze(-1)
        wanted += torch.where(is_here, picked.double(), 0.0)
    return (normaliser - wanted,)
