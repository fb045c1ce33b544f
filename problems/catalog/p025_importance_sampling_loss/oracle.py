"""The expected outputs, in float64 and without rounding in between."""

import torch
from torch import Tensor

from problems.catalog.p025_importance_sampling_loss.inputs import make_inputs
from problems.inputs.values import Call

_ROWS = 1024
"""Tokens taken at a time: their logits in float64 are a gigabyte at most, and fill whole tiles of a matrix product."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`loss`, `per_token_logprobs` (M), `per_token_loss` (M) and `metrics` (5)."""
    terms = [_terms(call.at_rank(rank)) for rank in range(call.world_size)]
    valid, logprobs, delta, losses = (torch.cat(parts) for parts in zip(*terms, strict=True))
    ratio = delta[valid].exp()
    entropy = -logprobs[valid]
    metrics = [ratio.mean(), ratio.min(), ratio.max(), (ratio - delta[valid] - 1).mean(), entropy.mean()]
    own = terms[call.rank]
    return losses[valid].mean(), own[1], own[3], torch.stack(metrics)


def _terms(call: Call) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of one rank's tokens: which count, log-probabilities, clamped log-ratios and losses."""
    arguments = make_inputs(call)
    labels = arguments["labels"]
    valid = labels != arguments["ignore_index"]
    head = arguments["weight"].double()
    logprobs = torch.zeros(len(labels), dtype=torch.float64, device=call.device)
    # Tokens that do not count, up to half of them, have no use for logits.
    for rows in valid.nonzero()[:, 0].split(_ROWS):
        logits = arguments["hidden_states"][rows].double() @ head.t()
        chosen = logits.gather(1, labels[rows, None]).squeeze(1)
        # No maximum is taken off: exp overflows from 710 on and is zero below -745. Logits are from -300 to 150.
        logprobs[rows] = chosen - logits.exp_().sum(dim=1).log()
    delta = torch.where(valid, (logprobs - arguments["old_logprobs"].double()).clamp(-20, 20), 0.0)
    losses = torch.where(valid, -delta.exp() * arguments["advantages"].double(), 0.0)
    return valid, logprobs, delta, losses
