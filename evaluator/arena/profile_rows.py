"""The file in which a rank reports what ran in a recorded call: a head, and rows of fixed size.

Standard library only: the host reads these too.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class RowKind(IntEnum):
    """What a row is: work on the device, or an operator of torch.distributed on the host."""

    KERNEL = 1
    COPY = 2
    FILL = 3
    OPERATOR = 4


@dataclass(frozen=True, kw_only=True)
class Row:
    """All work of one name in the call: how often, nanoseconds in all, bytes copied or filled in all (0: unknown)."""

    kind: RowKind
    name: str
    count: int
    nanoseconds: int
    bytes: int = 0


ROWS_BYTES = 64 * 1024
"""Size of the file."""

_HEAD = struct.Struct("<4sII180s")
_MAGIC = b"PKBa"
_ROW = struct.Struct("<IIQQ168s")
MOST_ROWS = (ROWS_BYTES - _HEAD.size) // _ROW.size


class RowsError(ValueError):
    """The shim did not write this file."""


def pack(rows: Sequence[Row], *, note: str = "") -> bytes:
    """The file's beginning: the rows that took longest, as many as fit; `note` says why there are none."""
    kept = sorted(rows, key=lambda row: row.nanoseconds, reverse=True)[:MOST_ROWS]
    head = _HEAD.pack(_MAGIC, len(kept), len(rows) - len(kept), _encoded(note, 180))
    return head + b"".join(
        _ROW.pack(
            row.kind,
            min(row.count, 2**32 - 1),
            min(row.nanoseconds, 2**63),
            min(row.bytes, 2**63),
            _encoded(row.name, 168),
        )
        for row in kept
    )


def unpack(content: bytes) -> tuple[list[Row], int, str]:
    """The rows of a file, how many more did not fit, and the note.

    Raises:
        RowsError: anything but a file that `pack` could have made.
    """
    if len(content) < _HEAD.size:
        raise RowsError(f"the file has {len(content)} bytes, less than its head")
    magic, count, dropped, note = _HEAD.unpack_from(content)
    if magic != _MAGIC:
        raise RowsError("the file does not start with its magic number")
    if count > MOST_ROWS or len(content) < _HEAD.size + count * _ROW.size:
        raise RowsError(f"the file cannot hold the {count} rows that it announces")
    rows = [_row(_ROW.unpack_from(content, _HEAD.size + number * _ROW.size)) for number in range(count)]
    return rows, dropped, _decoded(note)


def _row(values: tuple[int, int, int, int, bytes]) -> Row:
    kind, count, nanoseconds, copied, name = values
    try:
        known = RowKind(kind)
    except ValueError as error:
        raise RowsError(f"a row is of the unknown kind {kind}") from error
    return Row(kind=known, name=_decoded(name), count=count, nanoseconds=nanoseconds, bytes=copied)


def _encoded(text: str, size: int) -> bytes:
    return text.encode("utf-8", "replace")[:size]


def _decoded(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("utf-8", "replace")
