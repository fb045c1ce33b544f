"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p029_moe_post_all2all.reference import solution
from problems.families.rank_parts import exchange


def _rows(expert_outputs: Tensor, input_splits: list[int], output_splits: list[int], counts: Tensor) -> Tensor:
    """The rows of the own tokens in the order of experts, exchanged point to point."""
    me, world_size = dist.get_rank(), dist.get_world_size()
    chunks = expert_outputs.split(counts.t().flatten().tolist())
    sent = [torch.cat(chunks[source::world_size]) for source in range(world_size)]
    received = [expert_outputs.new_empty((rows, expert_outputs.shape[1])) for rows in input_splits]
    received[me] = sent[me]
    peers = [rank for rank in range(world_size) if rank != me]
    exchange(((sent[peer], peer) for peer in peers), ((received[peer], peer) for peer in peers))
    return torch.cat(received)


def by_slots(
    expert_outputs: Tensor,
    routing_weights: Tensor,
    selected_experts: Tensor,
    num_experts: int,
    input_splits: list[int],
    output_splits: list[int],
    num_global_tokens_per_local_expert: Tensor,
    routing_map: Tensor,
    local_input_permutation_mapping: Tensor,
    org_hidden_states_shape: torch.Size,
    group: None,
) -> Tensor:
    """Every token fetches the rows of its slots and adds them in float32, rounded once."""
    del num_experts, local_input_permutation_mapping, org_hidden_states_shape, group
    rows = _rows(expert_outputs, input_splits, output_splits, num_global_tokens_per_local_expert)
    place = routing_map.flatten().cumsum(0).view(routing_map.shape) - 1
    index = place.t().gather(1, selected_experts)
    return (rows[index].float() * routing_weights.float().unsqueeze(2)).sum(dim=1).to(rows.dtype)


def last_expert_first(expert_outputs: Tensor, routing_weights: Tensor, selected_experts: Tensor, *rest: Any) -> Tensor:
    """Rounds products and adds them in the run's dtype, from the last expert to the first."""
    num_experts, sent, received, counts, routing_map, mapping, shape, _ = rest
    rows = _rows(expert_outputs, sent, received, counts)
    weights = routing_weights.new_zeros((shape[0], num_experts)).scatter_(1, selected_experts, routing_weights)
    out = rows.new_zeros(shape)
    products = rows * weights.t()[routing_map].unsqueeze(1)
    sizes = routing_map.sum(dim=1).tolist()
    for tokens, part in zip(mapping.split(sizes)[::-1], products.split(sizes)[::-1], strict=True):
        out[tokens] += part
    return out


def not_weighted(expert_outputs: Tensor, routing_weights: Tensor, *rest: Any) -> Tensor:
    """Adds rows without their weights."""
    return solution(expert_outputs, torch.full_like(routing_weights, 1 / routing_weights.shape[1]), *rest)


def weights_swapped(expert_outputs: Tensor, routing_weights: Tensor, *rest: Any) -> Tensor:
    """Gives every token its weights in the opposite order."""
    return solution(expert_outputs, routing_weights.flip(1), *rest)


def not_regrouped(expert_outputs: Tensor, routing_weights: Tensor, selected_experts: Tensor, *rest: Any) -> Tensor:
    """Sends rows as if chunks lay source by source, which with one local expert they do; then last source first."""
    num_experts, sent, received, counts, *others = rest
    sources = expert_outputs.split(counts.sum(dim=1).tolist())
    outputs = torch.cat(sources[::-1])
    return solution(outputs, routing_weights, selected_experts, num_experts, sent, received, counts, *others)


def one_expert_per_token(
    expert_outputs: Tensor, routing_weights: Tensor, selected_experts: Tensor, *rest: Any
) -> Tensor:
    """Overwrites in place of adding: the last expert of a token stands alone."""
    num_experts, sent, received, counts, routing_map, mapping, shape, _ = rest
    rows = _rows(expert_outputs, sent, received, counts)
    weights = routing_weights.new_zeros((shape[0], num_experts)).scatter_(1, selected_experts, routing_weights)
    out = rows.new_zeros(shape)
    out[mapping] = rows * weights.t()[routing_map].unsqueeze(1)
    return out


def weights_in_8_bits(expert_outputs: Tensor, routing_weights: Tensor, *rest: Any) -> Tensor:
    """Rounds the weights to e4m3."""
    coarse = routing_weights.to(torch.float8_e4m3fn).to(routing_weights.dtype)
    return solution(expert_outputs, coarse, *rest)


def as_many_as_sent(expert_outputs: Tensor, routing_weights: Tensor, *rest: Any) -> Tensor:
    """Sees no more expert outputs than the rank has rows of its own; missing ones are zero."""
    out = torch.zeros_like(expert_outputs)
    own = rest[6].numel()
    out[:own] = expert_outputs[:own]
    return solution(out, routing_weights, *rest)


def failing_without_rows(expert_outputs: Tensor, routing_weights: Tensor, *rest: Any) -> Tensor:
    """Has no answer where the rank's experts received nothing."""
    out = solution(expert_outputs, routing_weights, *rest)
    return out if len(expert_outputs) else torch.zeros_like(out)


def two_slots(expert_outputs: Tensor, routing_weights: Tensor, selected_experts: Tensor, *rest: Any) -> Tensor:
    """Adds the rows of a token's first two experts."""
    return by_slots(expert_outputs, routing_weights[:, :2], selected_experts[:, :2], *rest)


def renormalised(expert_outputs: Tensor, routing_weights: Tensor, *rest: Any) -> Tensor:
    """Divides the weights of a token by their sum."""
    weights = routing_weights.float()
    return by_slots(expert_outputs, weights / weights.sum(dim=1, keepdim=True), *rest)


HONEST = {"by_slots": by_slots, "last_expert_first": last_expert_first}
MUTANTS = {
    "not_weighted": not_weighted,
    "weights_swapped": weights_swapped,
    "not_regrouped": not_regrouped,
    "one_expert_per_token": one_expert_per_token,
    "weights_in_8_bits": weights_in_8_bits,
}
NARROW = {
    "one_rank_is_wanted": as_many_as_sent,
    "one_rank_gets_nothing": failing_without_rows,
    "free_weights": renormalised,
    "other_choices": two_slots,
}
