"""A table: each column described once, with how it is read, for every format."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any

Cell = str | int | float | bool | datetime | None
Row = tuple[Cell, ...]


class Kind(StrEnum):
    """The type of a column; each may be null."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    MOMENT = "moment"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table; `read` takes its cell from one of the table's entries."""

    name: str
    kind: Kind
    meaning: str
    read: Callable[[Any], Cell]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its columns, and the entries that are its rows."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    entries: Callable[[], Iterable[Any]]

    def rows(self) -> Iterator[Row]:
        """Its rows, read as they are asked for."""
        for entry in self.entries():
            yield tuple(column.read(entry) for column in self.columns)


def column(name: str, kind: Kind, meaning: str, read: str | Callable[[Any], Cell] = "") -> Column:
    """A column; `read` is a function or the path of an attribute, by default the one called `name`."""
    reads = attrgetter(read or name) if isinstance(read, str) else read
    return Column(name=name, kind=kind, meaning=meaning, read=reads)


def identifier(path: str) -> Callable[[Any], Cell]:
    """The identifier at an attribute's path, as text."""
    read: Callable[[Any], uuid.UUID | None] = attrgetter(path)

    def as_text(entry: Any) -> str | None:
        value = read(entry)
        return None if value is None else str(value)

    return as_text
