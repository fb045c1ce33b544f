"""A table: each column described once, with how it is read, and the formats in which it is written."""

import csv
import io
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse

Cell = str | int | float | bool | datetime | None
Row = tuple[Cell, ...]

CHUNK = 2000
"""Rows of a query that are in memory at a time."""


class Kind(StrEnum):
    """The type of a column; each may be null."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    MOMENT = "moment"


@dataclass(frozen=True)
class Column:
    """One column of a table; `path` leads from one of the table's entries to its cell, as in `author.username`."""

    kind: Kind
    name: str
    meaning: str
    path: str = ""
    """By default the name."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its columns, and the entries that are its rows. Of a query no more is read than columns show."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    entries: Callable[[], QuerySet[Any] | Iterable[Any]]

    def rows(self) -> Iterator[Row]:
        """Its rows, read as they are asked for."""
        entries, paths = self.entries(), [column.path or column.name for column in self.columns]
        if isinstance(entries, QuerySet):
            chosen = entries.values_list(*(path.replace(".", "__") for path in paths))
            found: Iterable[Iterable[Any]] = chosen.iterator(chunk_size=CHUNK)
        else:
            found = ([_at(entry, path) for path in paths] for entry in entries)
        for row in found:
            yield tuple(map(_cell, row))


def _at(entry: Any, path: str) -> Any:
    for name in path.split("."):
        if entry is not None:
            entry = entry[name] if isinstance(entry, Mapping) else getattr(entry, name)
    return entry


def _cell(value: Any) -> Cell:
    if isinstance(value, uuid.UUID):
        return str(value)
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    cell: Cell = value.isoformat() if is_day else value
    return cell


text, integer, number, boolean, moment = (partial(Column, kind) for kind in Kind)
"""A column of that kind."""


MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def written(table: Table, *, format: str) -> Iterator[bytes]:  # noqa: A002 - the word that addresses use
    """A table in one of the formats of `MEDIA_TYPES`, in pieces."""
    return {"csv": _csv, "jsonl": _json_lines}[format](table)


def as_download(table: Table, *, format: str, name: str) -> HttpResponse:  # noqa: A002 - the word that addresses use
    """A small table as a file of that name, with the format's ending."""
    saved = {"Content-Disposition": f'attachment; filename="{name}.{format}"'}
    return HttpResponse(b"".join(written(table, format=format)), content_type=MEDIA_TYPES[format], headers=saved)


def _csv(table: Table) -> Iterator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([column.name for column in table.columns])
    for row in table.rows():
        writer.writerow([_csv_cell(cell) for cell in row])
        if buffer.tell() > 64 * 1024:
            yield _taken(buffer)
    yield _taken(buffer)


def _taken(buffer: io.StringIO) -> bytes:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text.encode()


def _csv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, datetime):
        return cell.isoformat()
    if isinstance(cell, str) and cell.startswith(_FORMULA):
        # A spreadsheet would run what another person wrote as a formula.
        return f"'{cell}"
    return str(cell)


def _json_lines(table: Table) -> Iterator[bytes]:
    names = [column.name for column in table.columns]
    lines = (json.dumps(dict(zip(names, row, strict=True)), default=datetime.isoformat) + "\n" for row in table.rows())
    while batch := list(islice(lines, 500)):
        yield "".join(batch).encode()
