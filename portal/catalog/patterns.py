"""Every communication pattern as a small picture: the data of four ranks before and after, piece by piece."""

from collections.abc import Sequence
from dataclasses import dataclass

from problems.spec.taxonomy import Communication

_LETTERS = "ABCD"
_WIDTH, _HEIGHT, _GAP = 26, 19, 3
_TOP, _LEFT, _RIGHT = 24, 24, 174
_UNEQUAL = ((18, 34, 26, 22), (30, 18, 22, 34), (22, 26, 34, 18), (34, 22, 18, 30))
"""Widths of the pieces of an all-to-all-v: what each rank sends to each."""

Row = tuple[str, ...]
"""The data of one rank: a piece per column, an empty string where there is none."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One rectangle of the picture; `tone` is the rank that it came from, or `sum`."""

    x: int
    y: int
    width: int
    text: str
    tone: str

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A pattern with its picture and what it does in one sentence."""

    communication: Communication
    sentence: str
    pieces: tuple[Piece, ...]
    spoken: str


def _full(rank: int) -> Row:
    return tuple(f"{_LETTERS[rank]}{piece}" for piece in range(4))


def _only(column: int, text: str) -> Row:
    return tuple(text if place == column else "" for place in range(4))


_EMPTY: Row = ("",) * 4
_ALL_FULL = tuple(_full(rank) for rank in range(4))
_ONE_EACH = tuple(_only(rank, _LETTERS[rank]) for rank in range(4))
_GATHERED: Row = tuple(_LETTERS)
_SUMS: Row = tuple(f"Σ{piece}" for piece in range(4))
_TURNED = tuple(tuple(f"{_LETTERS[source]}{rank}" for source in range(4)) for rank in range(4))

_STATES: dict[Communication, tuple[str, Sequence[Row], Sequence[Row]]] = {
    Communication.ALL_REDUCE: (
        "Every rank gets the sum over all ranks, piece by piece.",
        _ALL_FULL,
        (_SUMS,) * 4,
    ),
    Communication.ALL_GATHER: (
        "Every rank gets the shards of all ranks, in rank order.",
        _ONE_EACH,
        (_GATHERED,) * 4,
    ),
    Communication.REDUCE_SCATTER: (
        "The sum over all ranks is cut into pieces; each rank keeps its own.",
        _ALL_FULL,
        tuple(_only(rank, f"Σ{rank}") for rank in range(4)),
    ),
    Communication.ALL_TO_ALL: (
        "Each rank sends a different piece to each rank: rows become columns.",
        _ALL_FULL,
        _TURNED,
    ),
    Communication.ALL_TO_ALL_V: (
        "An all-to-all whose pieces have unequal lengths, known only when it runs.",
        _ALL_FULL,
        _TURNED,
    ),
    Communication.BROADCAST: (
        "Every rank gets one rank's data.",
        (_only(0, "A"), _EMPTY, _EMPTY, _EMPTY),
        (_only(0, "A"),) * 4,
    ),
    Communication.REDUCE: (
        "One rank gets the sum over all ranks.",
        tuple(_only(0, letter) for letter in _LETTERS),
        (_only(0, "Σ"), _EMPTY, _EMPTY, _EMPTY),
    ),
    Communication.SCATTER: (
        "One rank sends a different piece to each rank.",
        (_full(0), _EMPTY, _EMPTY, _EMPTY),
        tuple(_only(rank, f"A{rank}") for rank in range(4)),
    ),
    Communication.GATHER: (
        "One rank receives a piece from each rank.",
        _ONE_EACH,
        (_GATHERED, _EMPTY, _EMPTY, _EMPTY),
    ),
    Communication.SEND_RECV: (
        "Each rank sends to one neighbour and receives from the other: a ring.",
        tuple(_only(0, letter) for letter in _LETTERS),
        tuple(_only(0, _LETTERS[rank - 1]) for rank in range(4)),
    ),
}


def _widths(*, rank: int, is_after: bool, is_unequal: bool) -> Sequence[int]:
    if not is_unequal:
        return (_WIDTH,) * 4
    return [_UNEQUAL[source][rank] for source in range(4)] if is_after else _UNEQUAL[rank]


def _pieces(rows: Sequence[Row], *, left: int, is_after: bool, is_unequal: bool) -> list[Piece]:
    pieces = []
    for rank, row in enumerate(rows):
        x = left
        for text, width in zip(row, _widths(rank=rank, is_after=is_after, is_unequal=is_unequal), strict=True):
            if text:
                tone = "sum" if text.startswith("Σ") else str(_LETTERS.index(text[0]))
                y = _TOP + rank * (_HEIGHT + _GAP)
                pieces.append(Piece(x=x, y=y, width=width, text=text, tone=tone))
            x += width + _GAP
    return pieces


def _spoken(rows: Sequence[Row]) -> str:
    return "; ".join(f"rank {rank}: {' '.join(filter(None, row)) or 'nothing'}" for rank, row in enumerate(rows))


def pattern(communication: Communication) -> Pattern:
    sentence, before, after = _STATES[communication]
    is_unequal = communication is Communication.ALL_TO_ALL_V
    pieces = (
        *_pieces(before, left=_LEFT, is_after=False, is_unequal=is_unequal),
        *_pieces(after, left=_RIGHT, is_after=True, is_unequal=is_unequal),
    )
    spoken = f"Before, {_spoken(before)}. After, {_spoken(after)}."
    return Pattern(communication=communication, sentence=sentence, pieces=pieces, spoken=spoken)


def rank_rows() -> list[tuple[int, float]]:
    """The number of each rank and the height of its middle in the picture."""
    return [(rank, _TOP + rank * (_HEIGHT + _GAP) + _HEIGHT / 2) for rank in range(4)]
