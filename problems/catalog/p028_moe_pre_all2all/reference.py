"""The baseline: rows copied in expert order, one library collective with splits, chunks put into order."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    hidden_states: Tensor,
    expert_mask: Tensor,
    num_experts: int,
    input_splits: "list[int] | Tensor",
    output_splits: "list[int] | Tensor",
    num_global_tokens_per_local_expert: Tensor,
    group: "dist.ProcessGroup | None" = None,
) -> tuple[Tensor, Tensor, Tensor, torch.Size]:
    """Received rows by local expert, the routing map (E, M), the order of the own rows, and the shape of the tokens."""
    send, receive = _as_list(input_splits), _as_list(output_splits)
    shape = hidden_states.shape
    tokens = hidden_states.reshape(-1, shape[-1])
    routing_map = expert_mask.sum(dim=1)
    mapping = routing_map.nonzero()[:, 1]
    if sum(send) != mapping.numel():
        raise RuntimeError(f"input_splits add up to {sum(send)}, but {mapping.numel()} rows are routed")
    received = tokens.new_empty((sum(receive), tokens.shape[1]))
    dist.all_to_all_single(received, tokens[mapping], receive, send, group=group)
    chunks = received.split(num_global_tokens_per_local_expert.flatten().tolist())
    local = num_experts // dist.get_world_size(group)
    ordered = torch.cat([chunk for expert in range(local) for chunk in chunks[expert::local]])
    return ordered, routing_map, mapping, tokens.shape


def _as_list(sizes: "list[int] | Tensor") -> list[int]:
    return sizes.tolist() if isinstance(sizes, Tensor) else sizes
