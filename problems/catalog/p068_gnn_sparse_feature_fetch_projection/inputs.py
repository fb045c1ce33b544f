"""Arguments of one rank for one call.

At `base` a shard holds up to 28 GB. It is written in blocks: row i is a row of a random block of `period` rows, times
a factor of its own. So a shard is filled at the speed of memory, and the oracle can make single rows without it.
"""

import torch
from torch import Tensor

from problems.families.one_rank import in_regime_of_ranks
from problems.inputs.regime_values import magnitude, owner, unless_zero
from problems.inputs.values import Arguments, Call

LARGER = 2.0**20
"""How much larger the elements of a row are that a regime has no matrix see: others are lost beside them."""


def make_inputs(call: Call) -> Arguments:
    """The rank's shard (sh, D), its queries (Q,), its matrix (D, D), the number of nodes and no group."""
    return {
        "local_embedding_shard": shard(call),
        "input_node_ids": queries(call),
        "proj_matrix": projection(call),
        "num_total_nodes": _nodes(call),
        "group": None,
    }


def shard(call: Call) -> Tensor:
    """Rows of the table that the rank owns (sh, D)."""
    block, factors = _parts(call)
    rows = torch.empty(call.shape(("sh", "D")), dtype=call.dtype, device=call.device)
    for target, factor in zip(rows.split(len(block)), factors.split(len(block)), strict=True):
        torch.mul(block[: len(factor)], factor, out=target)
    return rows


def rows_of(call: Call, local: Tensor) -> Tensor:
    """The rows `local` of the rank's shard, bit by bit, without the shard."""
    block, factors = _parts(call)
    return block[local % len(block)] * factors[local]


def _parts(call: Call) -> tuple[Tensor, Tensor]:
    """The random block (period, D) and the factors (sh, 1), in the run's dtype."""
    factors = call.normal("factors", ("sh", 1), std=0.5, dtype=torch.float32).exp_()
    if call.setting("rows", None) == "spread":
        factors *= 10 ** call.uniform("regime's sizes", ("sh", 1), low=-28.0, high=12.0, dtype=torch.float32)
    block, factors = call.long_tailed("block", ("period", "D")), factors.to(call.dtype)
    if call.setting("factor_in", "all") == "row":
        block[:, _unseen(call)] *= LARGER
    if call.setting("values_in", "all") == "part":
        factors[0], block[:, 0] = 0, 0
        return block, factors
    return in_regime_of_ranks(call, "block", block), factors


def queries(call: Call) -> Tensor:
    """Node ids (Q,) in [0, Nn) that come in unequal shares from the owners, with popular nodes asked for often.

    Random cuts give every owner a share, another one for each rank; one owner in a secret place relative to the rank is
    asked for nothing. Within an owner the density falls with the power -2/3 of the distance from a popular node.
    """
    asked = _owners(call)
    nodes, rows = _nodes(call), call.dims["sh"]
    held = torch.tensor([min(rows, nodes - rank * rows) for rank in range(call.world_size)], device=call.device)
    popular = call.integers("popular", (call.world_size,), low=0, high=rows, shared=True)
    distance = call.uniform("distances", ("Q",), dtype=torch.float32).double().pow_(3)
    return asked * rows + (popular[asked] + (distance * held[asked]).long()) % held[asked]


def _nodes(call: Call) -> int:
    """How many nodes there are: as many as the size has, or the fewest that need shards of that length, or the most."""
    rows, kind = call.dims["sh"], call.setting("nodes", "usual")
    if kind == "all":
        return call.world_size * rows
    return call.world_size * (rows - 1) + 1 if kind == "fewest" else call.dims["Nn"]


def _owners(call: Call) -> Tensor:
    """The owner of every query."""
    if call.setting("queries", None) == "own":
        return torch.full(call.shape(("Q",)), call.rank, device=call.device)
    if call.setting("queries", None) == "one_owner":
        return torch.full(call.shape(("Q",)), owner(call), device=call.device)
    if call.world_size == 2:  # none of two can be left out
        return call.integers("owners of two", ("Q",), low=0, high=3).clamp_(max=1)
    cuts = call.uniform("cuts", (call.world_size - 2,), dtype=torch.float32).sort().values
    place = torch.searchsorted(cuts, call.uniform("owners", ("Q",), dtype=torch.float32))
    return call.permutation("order", call.world_size)[place]


def projection(call: Call) -> Tensor:
    """The rank's own matrix (D, D)."""
    matrix = call.normal("proj_matrix", ("D", "D")) * magnitude(call)
    if call.setting("factor_in", "all") == "part":
        matrix[0, 1] = matrix[1, 0] = 0
        return matrix
    if call.setting("factor_in", "all") == "row":
        matrix[_unseen(call)] = 0
        return matrix
    return unless_zero(call, matrix)


def _unseen(call: Call) -> int:
    """The column of the table that a regime has no matrix see."""
    return int(call.integers("regime's column", (), low=0, high=call.dims["D"], shared=True))
