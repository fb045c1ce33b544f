"""Every communication pattern as a small picture: the data of four ranks before and after, piece by piece."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from problems import registry
from problems.spec.taxonomy import Communication

_LETTERS, _NONE = "ABCD", "."
_WIDTH, _HEIGHT, _GAP = 26, 19, 3
_TOP, _LEFT, _RIGHT = 24, 24, 174
_UNEQUAL = ((18, 34, 26, 22), (30, 18, 22, 34), (22, 26, 34, 18), (34, 22, 18, 30))
"""Widths of the pieces of an all-to-all-v: what each rank sends to each."""

Rows = tuple[str, str, str, str]
"""The data of each rank: a piece per column, a dot where there is none."""


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern as `problems/data/patterns.toml` has it: what it does in one sentence, the data before and after."""

    sentence: str
    before: Rows
    after: Rows


@cache
def _states() -> dict[Communication, State]:
    return msgspec.toml.decode((registry.DATA / "patterns.toml").read_bytes(), type=dict[Communication, State])


def _widths(*, rank: int, is_after: bool, is_unequal: bool) -> Sequence[int]:
    if not is_unequal:
        return (_WIDTH,) * 4
    return [_UNEQUAL[source][rank] for source in range(4)] if is_after else _UNEQUAL[rank]


def _pieces(rows: Rows, *, left: int, is_after: bool, is_unequal: bool) -> list[dict[str, Any]]:
    """The rectangles of the picture; `tone` is the rank that one came from, or `sum`."""
    pieces = []
    for rank, row in enumerate(rows):
        x = left
        for text, width in zip(row.split(), _widths(rank=rank, is_after=is_after, is_unequal=is_unequal), strict=True):
            if text != _NONE:
                tone = "sum" if text.startswith("Σ") else str(_LETTERS.index(text[0]))
                y = _TOP + rank * (_HEIGHT + _GAP)
                pieces.append({"x": x, "y": y, "width": width, "middle": x + width / 2, "text": text, "tone": tone})
            x += width + _GAP
    return pieces


def _spoken(rows: Rows) -> str:
    held = [" ".join(piece for piece in row.split() if piece != _NONE) for row in rows]
    return "; ".join(f"rank {rank}: {pieces or 'nothing'}" for rank, pieces in enumerate(held))


def pattern(communication: Communication) -> dict[str, Any]:
    """A pattern with its picture and what it does in one sentence."""
    state = _states()[communication]
    is_unequal = communication is Communication.ALL_TO_ALL_V
    pieces = (
        *_pieces(state.before, left=_LEFT, is_after=False, is_unequal=is_unequal),
        *_pieces(state.after, left=_RIGHT, is_after=True, is_unequal=is_unequal),
    )
    spoken = f"Before, {_spoken(state.before)}. After, {_spoken(state.after)}."
    return {"communication": communication, "sentence": state.sentence, "pieces": pieces, "spoken": spoken}


def rank_rows() -> list[tuple[int, float]]:
    """The number of each rank and the height of its middle in the picture."""
    return [(rank, _TOP + rank * (_HEIGHT + _GAP) + _HEIGHT / 2) for rank in range(4)]
