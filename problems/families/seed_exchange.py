"""Who exchanges how many rows with whom in cooperative minibatching, and which rows, for problems 65 and 66.

Counts are lists by relative rank: entry i of rank r belongs to rank (r + i) mod W.
"""

import torch
from torch import Tensor

from problems.families.seed_exchange_spec import ALL_STAY, ONE_STAYS
from problems.inputs.regime_values import owner
from problems.inputs.values import Call


def rows_to_owners(call: Call) -> list[list[int]]:
    """How many seeds rank r asks of rank d in `rows[r][d]`, W x W; every row and every column adds up to T.

    An eighth of the rows stays and a quarter goes one rank further, so that no call is without either; the rest is a
    sum of W random permutation matrices, each as heavy as a random share. Uneven, with zeros, the same secret on
    every rank.
    """
    if (step := call.setting("all_go", None)) is not None:
        return _all_go(call, step)
    stay, go = call.dims["T"] // 8, call.dims["T"] // 4
    rest = call.dims["T"] - stay - go
    cuts = call.integers("cuts", (call.world_size - 1,), low=0, high=rest + 1, shared=True).sort().values.tolist()
    shares = [end - start for start, end in zip([0, *cuts], [*cuts, rest], strict=True)]
    ranks = torch.arange(call.world_size)
    counts = torch.zeros(call.world_size, call.world_size, dtype=torch.int64)
    counts[ranks, ranks] += stay
    counts[ranks, ranks.roll(-1)] += go
    for layer, share in enumerate(shares):
        counts[ranks, call.permutation(f"targets{layer}", call.world_size, shared=True).cpu()] += share
    rows: list[list[int]] = counts.tolist()
    return rows


def _all_go(call: Call, step: int | str) -> list[list[int]]:
    """All rows of every rank go `step` ranks further, never back to itself; or all stay, or those of one rank alone."""
    ranks = list(range(call.world_size))
    if step == ONE_STAYS:
        others = [rank for rank in ranks if rank != owner(call)]
        targets = {rank: others[(place + 1) % len(others)] for place, rank in enumerate(others)}
    else:
        further = 0 if step == ALL_STAY else 1 + (int(step) - 1) % (call.world_size - 1)
        targets = {rank: (rank + further) % call.world_size for rank in ranks}
    counts = [[0] * call.world_size for _ in ranks]
    for rank in ranks:
        counts[rank][targets.get(rank, rank)] = call.dims["T"]
    return counts


def counts_sent(call: Call) -> list[int]:
    """Rows that come from each relative rank in the forward direction, and go to it in the backward one."""
    rows = rows_to_owners(call)
    return [rows[(call.rank + i) % call.world_size][call.rank] for i in range(call.world_size)]


def counts_received(call: Call) -> list[int]:
    """Rows that go to each relative rank in the forward direction, and come from it in the backward one."""
    rows = rows_to_owners(call)
    return [rows[call.rank][(call.rank + i) % call.world_size] for i in range(call.world_size)]


def seed_inverse_ids(call: Call) -> Tensor:
    """T positions in [0, F); density falls as x^(-1/2) from popular seeds, which lie in secret places.

    In a regime with `rows_of_one_seed`, that many of them name one seed, spread over all pieces. In another the pieces
    look like runs by their ends.
    """
    popularity = call.uniform("popularity", ("T",), dtype=torch.float32).square_().mul_(call.dims["F"]).long()
    ids = call.permutation("seeds", call.dims["F"])[popularity.clamp_(max=call.dims["F"] - 1)]
    if (most := call.setting("rows_of_one_seed", None)) is not None:
        ids[:: -(-call.dims["T"] // most)] = call.integers("regime's seed", (1,), low=0, high=call.dims["F"])
    return _with_ends_of_runs(call, ids) if call.setting("ids", None) == "nearly_runs" else ids


def _with_ends_of_runs(call: Call, ids: Tensor) -> Tensor:
    """`ids` (T,), in which the ends of every piece of more than two are those of a run of neighbours.

    What is between stays as it is, or is the rest of the run backwards. A piece longer than F has no run to look like.
    """
    places = call.uniform("regime's runs", (call.world_size,), dtype=torch.float32).tolist()
    for index, (piece, place) in enumerate(zip(ids.split(counts_received(call)), places, strict=True)):
        if not 2 < len(piece) <= call.dims["F"]:
            continue
        first = int(place * (call.dims["F"] - len(piece)))
        if (index + call.rank) % 2:
            piece[1:-1] = torch.arange(first + len(piece) - 2, first, -1, device=ids.device)
        piece[0], piece[-1] = first, first + len(piece) - 1
    return ids


def runs_by_ends(ids: Tensor, counts: list[int]) -> Tensor:
    """What a narrow program takes `ids` for: pieces of `counts` whose ends are those of a run are that run.

    It looks whether anything in a piece lies beyond its ends, and no further.
    """
    ids = ids.clone()
    for piece in ids.split(counts):
        is_within = len(piece) > 2 and piece.amax() - piece.amin() == len(piece) - 1
        if is_within and piece[-1] - piece[0] == len(piece) - 1:
            piece.copy_(torch.arange(len(piece)) + piece[0])
    return ids
