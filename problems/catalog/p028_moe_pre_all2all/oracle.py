"""The expected outputs: copies and integers."""

import torch
from torch import Tensor

from problems.catalog.p028_moe_pre_all2all.inputs import hidden_states
from problems.catalog.p028_moe_pre_all2all.spec import PROBLEM
from problems.families.expert_routing import draw, draw_counts
from problems.inputs.values import Call
from problems.outputs.copies import comparing_bits


def expected(call: Call) -> tuple[Tensor, ...]:
    """The rows that chose this rank's experts, expert by expert, then rank by rank; and what describes the own ones."""
    counts, local = draw_counts(call), call.dims["E_local"]
    ranks = [call.at_rank(rank) for rank in range(call.world_size)]
    maps = [draw(rank, counts).map for rank in ranks]
    # (E/W, W, M): what is true is listed in the order in which the rows are expected.
    chose_own = torch.stack([chosen[call.rank * local : (call.rank + 1) * local] for chosen in maps], dim=1)
    _, source, token = chose_own.nonzero(as_tuple=True)
    rows = torch.stack([hidden_states(rank) for rank in ranks])[source, token]
    shape = torch.tensor(call.shape(("M", "N")), device=call.device)
    return rows, maps[call.rank], maps[call.rank].nonzero()[:, 1], shape


compare = comparing_bits(PROBLEM)
