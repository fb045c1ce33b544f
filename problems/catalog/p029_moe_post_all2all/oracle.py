"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p029_moe_post_all2all.inputs import expert_outputs, routing_weights
from problems.families.expert_routing import draw, draw_counts
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): for every token of this rank, its experts' outputs times their weights, summed."""
    counts = draw_counts(call)
    own, weights = draw(call, counts), routing_weights(call).double()
    rows = torch.cat([_returned(call, counts, owner) for owner in range(call.world_size)])
    # They lie expert by expert, tokens ascending, as what is true does in the map (E, M).
    place = own.map.flatten().cumsum(dim=0).view(own.map.shape) - 1
    tokens = torch.arange(call.dims["M"], device=call.device)
    out = torch.zeros(call.shape(("M", "N")), dtype=torch.float64, device=call.device)
    for slot in range(call.dims["topk"]):
        out += rows[place[own.choices[:, slot], tokens]] * weights[:, slot, None]
    return (out,)


def _returned(call: Call, counts: Tensor, owner: int) -> Tensor:
    """What the experts of `owner` made of this rank's rows, expert by expert."""
    # Chunks lie expert by expert, source by source; those of this rank are every W-th.
    sizes = counts.view(call.world_size, call.world_size, -1)[:, owner].t().flatten().tolist()
    chunks = expert_outputs(call.at_rank(owner)).split(sizes)
    return torch.cat(chunks[call.rank :: call.world_size])
