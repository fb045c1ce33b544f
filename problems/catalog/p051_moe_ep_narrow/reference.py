"""The baseline: route, exchange rows by owner, compute, exchange back, weigh and add."""

from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor, nn

Group = dist.ProcessGroup | None


def solution(
    hidden_states: Tensor,
    gate_weight: Tensor,
    gate_bias: Tensor | None,
    gate_proj: nn.Linear,
    up_proj: nn.Linear,
    down_proj: nn.Linear,
    num_experts: int,
    top_k: int,
    group: Group = None,
) -> Tensor:
    """The layer's output (M, N) for the local tokens `hidden_states` (M, N)."""
    if group is None:
        group = _expert_group(num_experts, dist.get_world_size())
    weights, experts = _route(hidden_states, gate_weight, gate_bias, top_k)
    order = experts.flatten().argsort(stable=True)
    send, receive = _split_sizes(experts, num_experts, group)
    rows = _exchange(hidden_states[order // top_k], send, receive, group)
    hidden = nn.functional.silu(gate_proj(rows)) * up_proj(rows)
    rows = down_proj(hidden)
    returned = _exchange(rows, receive, send, group)
    chosen = torch.empty_like(returned)
    chosen[order] = returned
    return (chosen.unflatten(0, (-1, top_k)) * weights.unsqueeze(-1)).sum(dim=1)


@cache
def _expert_group(num_experts: int, world_size: int) -> Group:
    """This rank's block of `num_experts` neighbouring ranks, the world where experts are no fewer; made once."""
    if num_experts >= world_size:
        return None
    ranks = range(world_size)
    blocks = [dist.new_group(list(ranks[start : start + num_experts])) for start in ranks[::num_experts]]
    return blocks[dist.get_rank() // num_experts]


def _route(tokens: Tensor, gate_weight: Tensor, gate_bias: Tensor | None, top_k: int) -> tuple[Tensor, Tensor]:
    """The `top_k` largest probabilities of every token, not renormalised, and their experts (M, top_k)."""
    logits = nn.functional.linear(tokens, gate_weight, gate_bias)
    weights, experts = logits.softmax(dim=-1, dtype=torch.float32).topk(top_k, dim=-1)
    return weights.to(tokens.dtype), experts


def _split_sizes(experts: Tensor, num_experts: int, group: Group) -> tuple[list[int], list[int]]:
    """How many rows go to every rank and come from it; the host needs both to call the collective."""
    world_size = dist.get_world_size(group)
    own = experts.flatten().bincount(minlength=num_experts)
    counts = own.new_empty(world_size * num_experts)
    dist.all_gather_into_tensor(counts, own, group=group)
    # From source, to owner.
    by_owner = counts.view(world_size, world_size, -1).sum(dim=2).tolist()
    me = dist.get_rank(group)
    return by_owner[me], [sizes[me] for sizes in by_owner]


def _exchange(rows: Tensor, send: list[int], receive: list[int], group: Group) -> Tensor:
    """Consecutive pieces of `rows` to every rank; the pieces received in rank order."""
    out = rows.new_empty((sum(receive), rows.shape[1]))
    dist.all_to_all_single(out, rows, receive, send, group=group)
    return out
