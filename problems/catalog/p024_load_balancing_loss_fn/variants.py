"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p024_load_balancing_loss_fn.reference import solution
from problems.families.rank_parts import all_gathered

Logits = Tensor | tuple[Tensor, ...]
Mask = Tensor | None


def _rows(gate_logits: Logits, mask: Mask) -> Tensor:
    """The logits of the tokens that count, layer after layer."""
    layers = (gate_logits,) if isinstance(gate_logits, Tensor) else gate_logits
    return torch.cat(layers if mask is None else [layer[mask.flatten().bool()] for layer in layers])


def _parts(gate_logits: Logits, top_k: int, mask: Mask) -> tuple[Tensor, Tensor]:
    """How often each expert is chosen per token, and its mean probability; float64."""
    logits = _rows(gate_logits, mask)
    chosen = logits.topk(top_k, dim=1).indices
    counts = chosen.flatten().bincount(minlength=logits.shape[1])
    return counts.double() / logits.shape[0], logits.double().softmax(dim=1).mean(dim=0)


def _mean(local: Tensor) -> Tensor:
    total = local.clone()
    dist.all_reduce(total)
    return (total / dist.get_world_size()).float()


def in_float64(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Wide to the end; gathers the losses and adds them last rank first."""
    fractions, means = _parts(gate_logits, top_k, attention_mask)
    own = num_experts * (fractions * means).sum()
    return torch.stack(all_gathered(own)[::-1]).mean().float()


def rounded_means(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Probabilities and their means in the run's dtype, fractions as the mean of one-hot rows."""
    probabilities = _rows(gate_logits, attention_mask).softmax(dim=-1)
    chosen = probabilities.topk(top_k, dim=-1).indices
    fractions = torch.nn.functional.one_hot(chosen, num_experts).float().mean(dim=0)
    return _mean(num_experts * (fractions * probabilities.mean(dim=0)).sum())


def maximum_of_all_rows(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Subtracts the largest of all logits, so that all exponentials of a row may be zero."""
    logits = _rows(gate_logits, attention_mask).float()
    exponentials = (logits - logits.max()).exp()
    means = (exponentials / exponentials.sum(dim=1, keepdim=True)).mean(dim=0)
    fractions, _ = _parts(gate_logits, top_k, attention_mask)
    return _mean(num_experts * (fractions * means).sum())


def counts_in_float16(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Counts tokens one by one in float16, where 2048 and one more are 2048."""
    logits = _rows(gate_logits, attention_mask)
    fractions, means = _parts(logits, top_k, None)
    fractions = (fractions * len(logits)).clamp(max=2048) / len(logits)
    return _mean(num_experts * (fractions * means).sum())


def one_tensor_only(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Takes for granted that the logits are one tensor."""
    if not isinstance(gate_logits, Tensor):
        raise TypeError("gate_logits is no tensor")
    return solution(gate_logits, num_experts, top_k, attention_mask)


def mask_ignored(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Counts every token."""
    del attention_mask
    return solution(gate_logits, num_experts, top_k)


def mask_of_neighbours(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Takes the layers of a token to stand one after the other."""
    if attention_mask is not None and not isinstance(gate_logits, Tensor):
        attention_mask = attention_mask.flatten().repeat_interleave(len(gate_logits))
        gate_logits = torch.cat(gate_logits)
    return solution(gate_logits, num_experts, top_k, attention_mask)


def eight_tokens_at_least(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Divides by eight where fewer tokens count."""
    tokens = len(_rows(gate_logits, attention_mask))
    fractions, means = (part * tokens / max(8, tokens) for part in _parts(gate_logits, top_k, attention_mask))
    return _mean(num_experts * (fractions * means).sum())


def global_statistics(gate_logits: Tensor, num_experts: int, top_k: int, attention_mask: None) -> Tensor:
    """The loss of statistics averaged over ranks, in place of the average of losses."""
    fractions, means = map(_mean, _parts(gate_logits, top_k, attention_mask))
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


def next_one_wraps_around(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Takes what lies above the logit that follows the chosen ones: the largest, where no other follows."""
    loss = solution(gate_logits, num_experts, top_k, attention_mask)
    return loss if top_k < num_experts else torch.zeros_like(loss)


def choices_in_8_bits(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Keeps the number of a chosen expert in one byte."""
    logits = _rows(gate_logits, attention_mask)
    chosen = logits.topk(top_k, dim=1).indices.to(torch.uint8).long()
    fractions = chosen.flatten().bincount(minlength=num_experts).double() / logits.shape[0]
    return _mean(num_experts * (fractions * logits.double().softmax(dim=1).mean(dim=0)).sum())


def rows_in_fours(gate_logits: Logits, num_experts: int, top_k: int, attention_mask: Mask) -> Tensor:
    """Four rows and four experts at a time; what is left over does not count in the mean."""
    logits = _rows(gate_logits, attention_mask)
    fractions, _ = _parts(logits, top_k, None)
    kept = logits.double().softmax(dim=1)[: len(logits) // 4 * 4, : num_experts // 4 * 4]
    means = torch.zeros(num_experts, dtype=torch.float64)
    means[: kept.shape[1]] = kept.sum(dim=0) / len(logits)
    return _mean(num_experts * (fractions * means).sum())


HONEST = {"float64": in_float64, "rounded_means": rounded_means}
MUTANTS = {
    "global_statistics": global_statistics,
    "summed": summed,
    "first_choice_only": first_choice_only,
    "balanced": balanced,
}
NARROW = {
    "every_expert": next_one_wraps_around,
    "logits_apart": maximum_of_all_rows,
    "single_layer": one_tensor_only,
    "layers": one_tensor_only,
    "masked_tokens": mask_ignored,
    "masked_layers": mask_of_neighbours,
    "one_token_counts": eight_tokens_at_least,
    "other_extents": rows_in_fours,
    "many_tokens": counts_in_float16,
    "many_experts": choices_in_8_bits,
}
