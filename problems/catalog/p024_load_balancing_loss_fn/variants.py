"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p024_load_balancing_loss_fn.reference import solution
from problems.rank_parts import all_gathered


def _parts(gate_logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """How often each expert is chosen per token, and its mean probability; float64."""
    probabilities = gate_logits.double().softmax(dim=1)
    chosen = gate_logits.topk(top_k, dim=1).indices
    counts = chosen.flatten().bincount(minlength=gate_logits.shape[1])
    return counts.double() / gate_logits.shape[0], probabilities.mean(dim=0)


def _mean(local: Tensor) -> Tensor:
    total = local.clone()
    dist.all_reduce(total)
    return (total / dist.get_world_size()).float()


def in_float64(gate_logits: Tensor, num_experts: int, top_k: int, attention_mask: None) -> Tensor:
    """Wide to the end; gathers the losses and adds them last rank first."""
    del attention_mask
    fractions, means = _parts(gate_logits, top_k)
    own = num_experts * (fractions * means).sum()
    return torch.stack(all_gathered(own)[::-1]).mean().float()


def rounded_means(gate_logits: Tensor, num_experts: int, top_k: int, attention_mask: None) -> Tensor:
    """Probabilities and their means in the run's dtype, fractions as the mean of one-hot rows."""
    del attention_mask
    probabilities = gate_logits.softmax(dim=-1)
    chosen = probabilities.topk(top_k, dim=-1).indices
    fractions = torch.nn.functional.one_hot(chosen, num_experts).float().mean(dim=0)
    return _mean(num_experts * (fractions * probabilities.mean(dim=0)).sum())


def global_statistics(gate_logits: Tensor, num_experts: int, top_k: int, attention_mask: None) -> Tensor:
    """The loss of statistics averaged over ranks, in place of the average of losses."""
    del attention_mask
    fractions, means = map(_mean, _parts(gate_logits, top_k))
    return num_experts * (fractions * means).sum()


def summed(gate_logits: Tensor, num_experts: int, top_k: int, attention_mask: None) -> Tensor:
    """The sum of all ranks' losses."""
    return solution(gate_logits, num_experts, top_k, attention_mask) * dist.get_world_size()


def first_choice_only(gate_logits: Tensor, num_experts: int, top_k: int, attention_mask: None) -> Tensor:
    """Counts the best expert of every token, as often as `top_k` experts would be."""
    return top_k * solution(gate_logits, num_experts, 1, attention_mask)


def balanced(gate_logits: Tensor, num_experts: int, top_k: int, attention_mask: None) -> Tensor:
    """What a perfectly balanced router would give."""
    del num_experts, attention_mask
    return torch.tensor(float(top_k), device=gate_logits.device)


HONEST = {"float64": in_float64, "rounded_means": rounded_means}
MUTANTS = {
    "global_statistics": global_statistics,
    "summed": summed,
    "first_choice_only": first_choice_only,
    "balanced": balanced,
}
