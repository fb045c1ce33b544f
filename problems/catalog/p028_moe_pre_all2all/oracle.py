"""What each rank owes: copies and integers."""

import torch
from torch import Tensor

from problems.catalog.p028_moe_pre_all2all.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """The rows that chose this rank's experts, expert by expert, then rank by rank; and what describes the own ones."""
    local = call.dims["E_local"]
    parts: list[list[Tensor]] = [[] for _ in range(local)]
    for rank in range(call.world_size):
        sent = make_inputs(call.at_rank(rank))
        chosen = sent["expert_mask"].any(dim=1)
        for place in range(local):
            parts[place].append(sent["hidden_states"][chosen[call.rank * local + place]])
    own = make_inputs(call)
    routing_map = own["expert_mask"].any(dim=1)
    shape = torch.tensor(own["hidden_states"].shape, device=call.device)
    return torch.cat([part for expert in parts for part in expert]), routing_map, routing_map.nonzero()[:, 1], shape
