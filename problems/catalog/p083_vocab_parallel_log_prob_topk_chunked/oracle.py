"""What each rank owes, in float64 and in blocks of tokens; the chunk size changes nothing."""

import torch
from torch import Tensor

from problems.catalog.p083_vocab_parallel_log_prob_topk_chunked.inputs import make_inputs
from problems.sampling_filters import without_removed
from problems.values import Arguments, Call

_BLOCK_ELEMENTS = 1 << 25


def expected(call: Call) -> tuple[Tensor, ...]:
    """`token_logprobs` (B, S): minus infinity where the filters remove the target."""
    arguments = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    shards = [one["vocab_parallel_logits"].flatten(0, 1) for one in arguments]
    target = arguments[0]["target"].flatten()
    step = max(1, _BLOCK_ELEMENTS // call.dims["V"])
    blocks = [
        _log_probs(
            torch.cat([shard[start : start + step] for shard in shards], dim=1),
            target[start : start + step],
            arguments[0],
        )
        for start in range(0, len(target), step)
    ]
    return (torch.cat(blocks).view(call.shape(("B", "S"))),)


def _log_probs(logits: Tensor, target: Tensor, filters: Arguments) -> Tensor:
    """Log-probabilities (n,) of `target` under whole rows of logits (n, V) in the run's dtype."""
    kept = without_removed(logits, filters["top_k"], filters["top_p"])
    return kept.log_softmax(dim=1).gather(1, target[:, None]).squeeze(1)
