"""The baseline: chunks put into the order of their sources, one library collective, weighting and addition."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    expert_outputs: Tensor,
    routing_weights: Tensor,
    selected_experts: Tensor,
    num_experts: int,
    input_splits: "list[int] | Tensor",
    output_splits: "list[int] | Tensor",
    num_global_tokens_per_local_expert: Tensor,
    routing_map: Tensor,
    local_input_permutation_mapping: Tensor,
    org_hidden_states_shape: torch.Size,
    group: "dist.ProcessGroup | None" = None,
) -> Tensor:
    """Every token's weighted sum of its experts' outputs, in the shape of the tokens."""
    send, receive = _as_list(output_splits), _as_list(input_splits)
    world_size = dist.get_world_size(group)
    chunks = expert_outputs.split(num_global_tokens_per_local_expert.t().flatten().tolist())
    by_source = torch.cat([chunk for source in range(world_size) for chunk in chunks[source::world_size]])
    rows = by_source.new_empty((sum(receive), by_source.shape[1]))
    dist.all_to_all_single(rows, by_source, receive, send, group=group)
    weights = routing_weights.new_zeros((routing_weights.shape[0], num_experts))
    weights.scatter_add_(1, selected_experts, routing_weights)
    # The rows stand in the order of the map's true entries: experts first, tokens inside.
    rows *= weights.t()[routing_map].unsqueeze(1)
    out = rows.new_zeros((routing_weights.shape[0], rows.shape[1]))
    out.index_add_(0, local_input_permutation_mapping, rows)
    return out.view(org_hidden_states_shape)


def _as_list(sizes: "list[int] | Tensor") -> list[int]:
    return sizes.tolist() if isinstance(sizes, Tensor) else sizes
