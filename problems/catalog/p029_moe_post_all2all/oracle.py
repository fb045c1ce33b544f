"""What each rank owes, in float64."""

import torch
from torch import Tensor

from problems.catalog.p029_moe_post_all2all.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): for every token of this rank, its experts' outputs times their weights, summed."""
    own = make_inputs(call)
    weights = torch.zeros(call.shape(("M", "E")), dtype=torch.float64, device=call.device)
    weights.scatter_add_(1, own["selected_experts"], own["routing_weights"].double())
    out = torch.zeros(call.shape(("M", "N")), dtype=torch.float64, device=call.device)
    for owner in range(call.world_size):
        peer = make_inputs(call.at_rank(owner))
        # Chunks lie expert by expert, source by source; those of this rank are every W-th.
        chunks = peer["expert_outputs"].split(peer["num_global_tokens_per_local_expert"].t().flatten().tolist())
        for place, rows in enumerate(chunks[call.rank :: call.world_size]):
            expert = owner * call.dims["E_local"] + place
            tokens = own["routing_map"][expert].nonzero().flatten()
            out[tokens] += rows.double() * weights[tokens, expert].unsqueeze(1)
    return (out,)
