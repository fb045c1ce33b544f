"""Where in an output the wrong elements lie: counts over a coarse grid, per shard, and the pattern they make."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from evaluator.contract import ErrorMap, ErrorPattern
from evaluator.oracle.causes import OFF

GRID = 32
"""The most rows and columns of a map."""

_NEARLY_ALL = 0.8
_MOSTLY = 0.5


@dataclass
class _Sums:
    """Sums over the chunks so far: what is wrong by cell, what is off by row and column, both by shard."""

    grid: Tensor
    rows: Tensor
    columns: Tensor
    shards: dict[int, Tensor]
    off_shards: dict[int, Tensor]
    wrong: int = 0
    off: int = 0
    largest: float = -1.0
    largest_at: int = 0
    extents: tuple[int, ...] = field(default=())


def draw(
    units: Iterator[tuple[int, Tensor]], *, shape: tuple[int, ...], world_size: int, is_known: bool = False
) -> ErrorMap | None:
    """The map of an output of `shape`; None where nothing in it is wrong.

    Wrong elements are counted; the pattern is that of all that are off. Where a wide tolerance covers errors near zero,
    few of a wholly wrong output are wrong and all of them are off.

    Args:
        units: blocks of whole rows of errors in units of the tolerance, with the flat position of their first element.
        shape: the output's; its last two dimensions make the grid, summed over the others.
        world_size: every dimension that this number divides is also counted in as many equal parts.
        is_known: the sentence says only where they lie, because what the output is instead is known.
    """
    height, width = _extents(shape)
    sums: _Sums | None = None
    for offset, block in units:
        if sums is None:
            sums = _empty(shape, world_size, device=block.device)
        _add(sums, offset, block, shape=shape, world_size=world_size)
    if sums is None or not sums.wrong:
        return None
    pattern, place, guess, dimension = _pattern(sums, shape=shape, height=height, width=width)
    shards = sums.shards.get(dimension) if dimension is not None else next(iter(sums.shards.values()), None)
    return ErrorMap(
        shape=shape,
        counts=tuple(tuple(int(count) for count in row) for row in sums.grid.tolist()),
        largest_at=tuple(int(at) for at in torch.unravel_index(torch.tensor(sums.largest_at), shape)),
        shard_dimension=dimension if dimension is not None else next(iter(sums.shards), None),
        shards=tuple(int(count) for count in shards.tolist()) if shards is not None else (),
        pattern=pattern,
        sentence=place if is_known else f"{place}: {guess}",
    )


def _extents(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[-2] if len(shape) > 1 else 1), (shape[-1] if shape else 1)


def _empty(shape: tuple[int, ...], world_size: int, *, device: torch.device) -> _Sums:
    height, width = _extents(shape)

    def zeros(*extents: int) -> Tensor:
        return torch.zeros(*extents, dtype=torch.float64, device=device)

    divided = [
        dimension for dimension, extent in enumerate(shape) if world_size > 1 and extent and extent % world_size == 0
    ]
    return _Sums(
        grid=zeros(min(GRID, height), min(GRID, width)),
        rows=zeros(height),
        columns=zeros(width),
        shards={dimension: zeros(world_size) for dimension in divided},
        off_shards={dimension: zeros(world_size) for dimension in divided},
    )


def _add(sums: _Sums, offset: int, block: Tensor, *, shape: tuple[int, ...], world_size: int) -> None:
    height, width = _extents(shape)
    units = block.reshape(-1, width)
    largest, at = units.flatten().max(dim=0)
    if float(largest) > sums.largest:
        sums.largest, sums.largest_at = float(largest), offset + int(at)
    wrong, off = (units > 1).double(), (units > OFF).double()
    row_numbers = offset // width + torch.arange(len(units), device=units.device)
    column_numbers = torch.arange(width, device=units.device)
    sums.wrong += int(wrong.sum())
    sums.off += int(off.sum())
    sums.rows.index_add_(0, row_numbers % height, off.sum(dim=1))
    sums.columns += off.sum(dim=0)
    cells = torch.zeros(len(units), sums.grid.shape[1], dtype=torch.float64, device=units.device)
    cells.index_add_(1, column_numbers * sums.grid.shape[1] // width, wrong)
    sums.grid.index_add_(0, row_numbers % height * sums.grid.shape[0] // height, cells)
    for chosen, by_dimension in ((wrong, sums.shards), (off, sums.off_shards)):
        for dimension, counts in by_dimension.items():
            if dimension == len(shape) - 1:
                counts.index_add_(0, column_numbers * world_size // width, chosen.sum(dim=0))
            else:
                below = prod(shape[dimension + 1 : -1])
                parts = row_numbers // below % shape[dimension] * world_size // shape[dimension]
                counts.index_add_(0, parts, chosen.sum(dim=1))


def _pattern(
    sums: _Sums, *, shape: tuple[int, ...], height: int, width: int
) -> tuple[ErrorPattern, str, str, int | None]:
    """The simplest pattern of what is off: its name, the place, a guess why, and the dimension of a shard."""
    total = prod(shape)
    share = f"{sums.off / total:.0%} of all elements"
    if sums.off > sums.wrong:
        share += f" are off by over {OFF} times the limit"
    if sums.off == 1 < total:
        return ErrorPattern.SCATTERED, "in a single element", "an index or a bound that is off by one", None
    if sums.off >= _NEARLY_ALL * total:
        guess = "a missing or doubled reduction, a wrong scale or too little precision"
        return ErrorPattern.EVERYWHERE, f"nearly everywhere ({share})", guess, None
    for dimension, counts in sums.off_shards.items():
        parts = counts.nonzero().flatten().tolist()
        filled = sums.off * len(counts) / total
        if len(parts) == 1 and filled >= _MOSTLY:
            place = f"in part {parts[0] + 1} of {len(counts)} along dimension {dimension} ({filled:.0%} of it)"
            guess = f"what rank {parts[0]} holds or sends is missing, stale or at a wrong offset"
            return ErrorPattern.ONE_SHARD, place, guess, dimension
    layers = total // (height * width)
    return *_in_the_plane(sums, layers=layers, share=share, height=height, width=width, axes=len(shape)), None


def _in_the_plane(
    sums: _Sums, *, layers: int, share: str, height: int, width: int, axes: int
) -> tuple[ErrorPattern, str, str]:
    rows, columns = sums.rows.nonzero().flatten().tolist(), sums.columns.nonzero().flatten().tolist()
    boundary = "a tile or message boundary"
    if height > 1 and len(rows) <= height / 2 and sums.off >= _MOSTLY * len(rows) * width * layers:
        return ErrorPattern.ROWS, f"in whole rows ({_range(rows)} along dimension {axes - 2})", boundary
    if width > 1 and len(columns) <= width / 2 and sums.off >= _MOSTLY * len(columns) * height * layers:
        return ErrorPattern.COLUMNS, f"in whole columns ({_range(columns)} along dimension {axes - 1})", boundary
    box = (rows[-1] - rows[0] + 1) * (columns[-1] - columns[0] + 1)
    if 1 < box <= height * width / 2 and sums.off >= _MOSTLY * box * layers:
        place = f"in one block (rows {rows[0]} to {rows[-1]}, columns {columns[0]} to {columns[-1]})"
        return ErrorPattern.BLOCK, place, "one tile or one peer"
    place = f"scattered over {len(rows)} rows and {len(columns)} columns ({share})"
    return ErrorPattern.SCATTERED, place, "what picks these elements, as an index, a mask or a condition, may be wrong"


def _range(numbers: list[int]) -> str:
    whole = numbers[-1] - numbers[0] + 1 == len(numbers)
    if len(numbers) == 1:
        return str(numbers[0])
    return (
        f"{numbers[0]} to {numbers[-1]}" if whole else f"{len(numbers)} of them between {numbers[0]} and {numbers[-1]}"
    )
