"""The baseline: softmax, top-k and means in plain PyTorch, one all-reduce of a scalar."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    gate_logits: "Tensor | tuple[Tensor, ...]",
    num_experts: int,
    top_k: int = 2,
    attention_mask: "Tensor | None" = None,
) -> Tensor:
    """The load-balancing loss of this rank's tokens, averaged over the ranks; a float32 scalar."""
    logits = gate_logits if isinstance(gate_logits, Tensor) else torch.cat(gate_logits)
    probabilities = torch.softmax(logits, dim=-1)
    chosen = torch.topk(probabilities, top_k, dim=-1).indices
    weights = _row_weights(logits, attention_mask)
    counts = torch.zeros(num_experts, dtype=torch.float32, device=logits.device)
    counts.index_add_(0, chosen.flatten(), weights.repeat_interleave(top_k))
    fractions = counts / weights.sum()
    means = (probabilities * weights.unsqueeze(1)).sum(dim=0) / weights.sum()
    loss = num_experts * (fractions * means).sum()
    dist.all_reduce(loss)
    return loss / dist.get_world_size()


def _row_weights(logits: Tensor, attention_mask: "Tensor | None") -> Tensor:
    """1 for every row that counts and 0 for the others; the mask is repeated for every layer."""
    rows = logits.shape[0]
    if attention_mask is None:
        return torch.ones(rows, dtype=torch.float32, device=logits.device)
    return attention_mask.to(logits.device, torch.float32).flatten().repeat(rows // attention_mask.numel())
