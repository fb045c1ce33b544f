"""A table: each column described once, with how it is read, for every format."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import partial
from typing import Any

from django.db.models import QuerySet

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
