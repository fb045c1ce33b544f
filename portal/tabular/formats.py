"""Tables as CSV and JSON Lines."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from django.http import HttpResponse

from portal.tabular.tables import Cell, Table

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
