"""What each rank owes, in float64 and without rounding in between."""

import torch
from torch import Tensor

from problems.catalog.p025_importance_sampling_loss.inputs import make_inputs
from problems.values import Call

_LOGITS = 1 << 26
"""Logits computed at a time: half a gigabyte in float64."""


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
    for rows in torch.arange(len(labels), device=call.device).split(max(1, _LOGITS // len(head))):
        logits = arguments["hidden_states"][rows].double() @ head.t()
        chosen = logits.gather(1, labels[rows].clamp(min=0).unsqueeze(1)).squeeze(1)
        logprobs[rows] = chosen - logits.logsumexp(dim=1)
    logprobs = torch.where(valid, logprobs, 0.0)
    delta = torch.where(valid, (logprobs - arguments["old_logprobs"].double()).clamp(-20, 20), 0.0)
    losses = torch.where(valid, -delta.exp() * arguments["advantages"].double(), 0.0)
    return valid, logprobs, delta, losses
