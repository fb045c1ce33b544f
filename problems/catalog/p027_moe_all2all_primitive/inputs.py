"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.copied_values import copied
from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`local_tensor` (M, N), the two lists of W row counts, and no group."""
    rows = row_counts(call)
    own = "M" if call.regime is None else sum(rows[call.rank])
    tensor = copied(call, "local_tensor", call.normal("local_tensor", (own, "N")))
    if call.setting("beginnings", "usual") == "zero":
        tensor[::2, :8] = 0
    if call.setting("pieces", None) == "zero":
        tensor = _with_zero_pieces(call, tensor, rows[call.rank])
    return {
        "local_tensor": tensor,
        "input_split_sizes": rows[call.rank],
        "output_split_sizes": [row[call.rank] for row in rows],
        "group": None,
    }


def _with_zero_pieces(call: Call, tensor: Tensor, rows: list[int]) -> Tensor:
    """`tensor`, where the rows for every second rank, from the rank itself or the next one on, are zeros of its signs.

    Neither a whole piece nor a part of it says then that there are other values.
    """
    is_zero = (torch.arange(call.world_size) + call.rank + owner(call)) % 2 == 0
    is_zero = is_zero.repeat_interleave(torch.tensor(rows)).unsqueeze(1).to(tensor.device)
    return torch.where(is_zero, torch.zeros_like(tensor).copysign(tensor), tensor)


def row_counts(call: Call) -> list[list[int]]:
    """How many rows rank r sends to rank d, W x W; every row and every column adds up to M.

    A sum of 2 W permutation matrices, each as heavy as a random share of M: uneven, with zeros, the same secret on
    every rank. The shares are the gaps between random cuts. An eighth of the rows goes to another rank for sure.
    """
    if (style := call.setting("rows", None)) is not None:
        return _extreme(call, style, owner(call))
    world_size, travelling = call.world_size, call.dims["M"] // 8
    free, layers = call.dims["M"] - travelling, 2 * world_size
    cuts = call.integers("cuts", (layers - 1,), low=0, high=free + 1, shared=True).sort().values.tolist()
    shares = [end - start for start, end in zip([0, *cuts], [*cuts, free], strict=True)]
    counts = torch.zeros(world_size, world_size, dtype=torch.int64)
    sources = torch.arange(world_size)
    hop = int(call.integers("hop", (), low=1, high=world_size, shared=True))
    counts[sources, (sources + hop) % world_size] += travelling
    for layer, share in enumerate(shares):
        counts[sources, call.permutation(f"targets{layer}", world_size, shared=True).cpu()] += share
    rows: list[list[int]] = counts.tolist()
    return rows


def _extreme(call: Call, style: str, one: int) -> list[list[int]]:
    """Everything to rank `one`; or nothing from it and unequal shares of the others, of which it has one or none.

    Or pieces of few rows, which rank `one` sends and does not receive; or what stays where it is; or nothing at all.
    """
    world_size, rows = call.world_size, call.dims["M"]
    if style == "few":
        few = call.integers("regime's rows", (world_size,) * 2, low=-3, high=4, shared=True).clamp(min=0)
        few[torch.arange(world_size) != one, one] = 0
        few[one, (one + 1) % world_size] += 1
        counts: list[list[int]] = few.tolist()
        return counts
    if style in ("stay", "none"):
        kept = rows if style == "stay" else 0
        return [[kept if rank == source else 0 for rank in range(world_size)] for source in range(world_size)]
    part, rest = divmod(rows, world_size)
    if style == "to_one":
        return [[rows if rank == one else 0 for rank in range(world_size)] for _ in range(world_size)]
    parts = [part + (rest if rank == one else 0) for rank in range(world_size)]
    if style == "one_idle":
        parts[(one + 1) % world_size] += parts[one]
        parts[one] = 0
    return [[0] * world_size if rank == one else parts for rank in range(world_size)]
