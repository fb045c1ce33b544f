"""The expected outputs, in float64, from the largest logits of every shard."""

from torch import Tensor

from problems.families.sampling_filters import shards, survivors, tokens
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`token_logprobs` (B, S): minus infinity where the filters remove the target."""
    drawn = tokens(call)
    return (survivors(shards(call, drawn), drawn).log_probs().view(call.shape(("B", "S"))),)
