"""The baseline: logits from the library, per-token terms in plain PyTorch, and three small collectives."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy

LARGEST = 20.0
"""Log-ratios are clamped to this magnitude before they are exponentiated."""


def solution(
    hidden_states: Tensor,
    weight: Tensor,
    labels: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    ignore_index: int = -100,
) -> tuple[Tensor, None, Tensor, Tensor, Tensor]:
    """The loss over all ranks' tokens, nothing, log-probabilities and losses per token, and five metrics."""
    logits = hidden_states.reshape(-1, hidden_states.shape[-1]) @ weight.t()
    flat = labels.reshape(-1)
    ce = cross_entropy(logits.float(), flat, reduction="none", ignore_index=ignore_index)
    ratio_terms = _terms(ce, flat != ignore_index, old_logprobs.reshape(-1), advantages.reshape(-1))
    sums, lowest, highest, losses = ratio_terms
    dist.all_reduce(sums)
    dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    loss, ratio, k3, entropy = (sums[1:] / sums[0].clamp(min=1)).unbind()
    metrics = torch.stack([ratio, lowest, highest, k3, entropy])
    per_token = (-ce).to(hidden_states.dtype).view(labels.shape)
    return loss, None, per_token, losses.to(hidden_states.dtype).view(labels.shape), metrics


def _terms(ce: Tensor, valid: Tensor, old: Tensor, advantages: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Five sums over valid tokens (tokens, loss, ratio, k3, entropy), extreme ratios, and losses per token; float32."""
    delta = torch.where(valid, (-ce - old.float()).clamp(-LARGEST, LARGEST), 0.0)
    ratio = delta.exp()
    losses = torch.where(valid, -ratio * advantages.float(), 0.0)
    zero = torch.zeros_like(ratio)
    counted = torch.where(valid, ratio, zero)
    k3 = torch.where(valid, ratio - delta - 1, zero)
    sums = torch.stack([valid.float(), losses, counted, k3, torch.where(valid, ce, zero)]).sum(dim=1)
    return sums, ratio.where(valid, torch.inf).min(), ratio.where(valid, -torch.inf).max(), losses
