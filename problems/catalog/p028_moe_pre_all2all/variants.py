"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p028_moe_pre_all2all.reference import solution
from problems.families.rank_parts import exchange

Dispatched = tuple[Tensor, Tensor, Tensor, torch.Size]


def _order(expert_mask: Tensor) -> Tensor:
    """Token numbers in the order of experts."""
    return expert_mask.any(dim=1).nonzero()[:, 1]


def _received(
    hidden_states: Tensor, mapping: Tensor, input_splits: list[int], output_splits: list[int]
) -> list[Tensor]:
    """The rows of every rank, exchanged point to point."""
    me = dist.get_rank()
    sent = list(hidden_states[mapping].split(input_splits))
    received = [hidden_states.new_empty((rows, hidden_states.shape[1])) for rows in output_splits]
    received[me] = sent[me]
    peers = [rank for rank in range(dist.get_world_size()) if rank != me]
    exchange(((sent[peer].contiguous(), peer) for peer in peers), ((received[peer], peer) for peer in peers))
    return received


def point_to_point(
    hidden_states: Tensor,
    expert_mask: Tensor,
    num_experts: int,
    input_splits: list[int],
    output_splits: list[int],
    num_global_tokens_per_local_expert: Tensor,
    group: None,
) -> Dispatched:
    """One send and one receive per peer; a prefix sum over counts gives the offsets of the rows."""
    del group, num_experts
    mapping = _order(expert_mask)
    rows = torch.cat(_received(hidden_states, mapping, input_splits, output_splits))
    counts = num_global_tokens_per_local_expert
    starts = counts.t().flatten().cumsum(0).view(counts.t().shape).t() - counts
    places = [
        torch.arange(count) + start for start, count in zip(starts.flatten(), counts.flatten().tolist(), strict=True)
    ]
    out = torch.empty_like(rows)
    out[torch.cat(places)] = rows
    return out, expert_mask.sum(dim=1), mapping, hidden_states.shape


def gathered(
    hidden_states: Tensor,
    expert_mask: Tensor,
    num_experts: int,
    input_splits: list[int],
    output_splits: list[int],
    num_global_tokens_per_local_expert: Tensor,
    group: None,
) -> Dispatched:
    """Gathers all tokens and routings, and picks what chose the own experts."""
    del input_splits, output_splits, num_global_tokens_per_local_expert
    routing_map = expert_mask.amax(dim=1)
    tokens = [torch.empty_like(hidden_states) for _ in range(dist.get_world_size(group))]
    maps = [torch.empty_like(routing_map) for _ in tokens]
    dist.all_gather(tokens, hidden_states, group=group)
    dist.all_gather(maps, routing_map, group=group)
    local = num_experts // len(tokens)
    first = dist.get_rank(group) * local
    picked = [
        rows[chosen[expert] > 0]
        for expert in range(first, first + local)
        for rows, chosen in zip(tokens, maps, strict=True)
    ]
    return torch.cat(picked), routing_map, _order(expert_mask), hidden_states.shape


def not_regrouped(
    hidden_states: Tensor,
    expert_mask: Tensor,
    num_experts: int,
    input_splits: list[int],
    output_splits: list[int],
    num_global_tokens_per_local_expert: Tensor,
    group: None,
) -> Dispatched:
    """Leaves the received rows in the order of their senders, last sender first."""
    del num_experts, num_global_tokens_per_local_expert, group
    mapping = _order(expert_mask)
    received = _received(hidden_states, mapping, input_splits, output_splits)
    return torch.cat(received[::-1]), expert_mask.sum(dim=1), mapping, hidden_states.shape


def token_order(
    hidden_states: Tensor,
    expert_mask: Tensor,
    num_experts: int,
    input_splits: list[int],
    output_splits: list[int],
    num_global_tokens_per_local_expert: Tensor,
    group: None,
) -> Dispatched:
    """Sends rows in the order of tokens, not of experts."""
    del num_experts, num_global_tokens_per_local_expert, group
    mapping = _order(expert_mask).sort().values
    received = _received(hidden_states, mapping, input_splits, output_splits)
    return torch.cat(received), expert_mask.sum(dim=1), mapping, hidden_states.shape


def first_slot_mapped(hidden_states: Tensor, expert_mask: Tensor, num_experts: int, *rest: Any) -> Dispatched:
    """The right rows with a map of first choices."""
    rows, _, mapping, shape = solution(hidden_states, expert_mask, num_experts, *rest)
    return rows, expert_mask[:, 0].clone(), mapping, shape


def wrong_shape(hidden_states: Tensor, expert_mask: Tensor, num_experts: int, *rest: Any) -> Dispatched:
    """The shape of the received rows in place of that of the tokens."""
    rows, routing_map, mapping, _ = solution(hidden_states, expert_mask, num_experts, *rest)
    return rows, routing_map, mapping, rows.shape


def as_many_as_sent(*arguments: Any) -> Dispatched:
    """Returns as many rows as the rank sends: the rest cut off or zero."""
    rows, routing_map, mapping, shape = solution(*arguments)
    out = rows.new_zeros((mapping.numel(), rows.shape[1]))
    kept = min(len(out), len(rows))
    out[:kept] = rows[:kept]
    return out, routing_map, mapping, shape


def one_row_at_least(*arguments: Any) -> Dispatched:
    """Returns a row of zeros where none arrives."""
    rows, routing_map, mapping, shape = solution(*arguments)
    return rows if len(rows) else rows.new_zeros((1, rows.shape[1])), routing_map, mapping, shape


def two_slots(hidden_states: Tensor, expert_mask: Tensor, num_experts: int, *rest: Any) -> Dispatched:
    """The right rows with a map of first and second choices."""
    rows, _, mapping, shape = solution(hidden_states, expert_mask, num_experts, *rest)
    return rows, expert_mask[:, :2].sum(dim=1), mapping, shape


def balanced(
    hidden_states: Tensor,
    expert_mask: Tensor,
    num_experts: int,
    input_splits: list[int],
    output_splits: list[int],
    counts: Tensor,
    group: None,
) -> Dispatched:
    """Takes equal splits for equal counts of all experts."""
    each, left = divmod(output_splits[0], num_experts // len(output_splits))
    if len({*input_splits, *output_splits}) == 1 and not left:
        counts = torch.full_like(counts, each)
    return point_to_point(hidden_states, expert_mask, num_experts, input_splits, output_splits, counts, group)


HONEST = {"point_to_point": point_to_point, "gathered": gathered}
MUTANTS = {
    "not_regrouped": not_regrouped,
    "token_order": token_order,
    "first_slot_mapped": first_slot_mapped,
    "wrong_shape": wrong_shape,
}
NARROW = {
    "one_rank_is_wanted": as_many_as_sent,
    "one_rank_gets_nothing": one_row_at_least,
    "even_splits": balanced,
    "other_choices": two_slots,
}
