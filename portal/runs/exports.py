"""Tables as CSV, JSON Lines and Parquet, the whole data set in one archive, and one evaluation as a bundle."""

import csv
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone

from evaluator.contract import Backend, EvaluationRequest, Mode
from portal.runs.tables import TABLES, Cell, Kind, Row, Table, schema
from portal.submissions.models import Evaluation
from portal.submissions.queries import latest_report
from problems import registry

MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
DATASET_LIVES = timedelta(hours=1)
"""How long the archive of all public data is served before it is made anew."""

_BATCH = 5000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def written(table: Table, *, format: str) -> Iterator[bytes]:  # noqa: A002 - the word that addresses use
    """A table in one of the formats of `MEDIA_TYPES`, in pieces."""
    writers = {"csv": _csv, "jsonl": _json_lines, "parquet": _parquet}
    return writers[format](table)


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
    lines = (json.dumps(dict(zip(names, map(_json_cell, row), strict=True))) + "\n" for row in table.rows())
    while batch := list(islice(lines, 500)):
        yield "".join(batch).encode()


def _json_cell(cell: Cell) -> Any:
    return cell.isoformat() if isinstance(cell, datetime) else cell


def _parquet(table: Table) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as file:
        _write_parquet(table, file)
        file.seek(0)
        while chunk := file.read(256 * 1024):
            yield chunk


def _write_parquet(table: Table, file: IO[bytes]) -> None:
    # 170 MB of libraries that only this format needs: loaded when somebody asks for it.
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    kinds = {
        Kind.TEXT: pa.string(),
        Kind.INTEGER: pa.int64(),
        Kind.NUMBER: pa.float64(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.MOMENT: pa.timestamp("us", tz="UTC"),
    }
    fields = [
        pa.field(column.name, kinds[column.kind], metadata={"meaning": column.meaning}) for column in table.columns
    ]
    described = pa.schema(fields, metadata={"meaning": table.meaning})
    rows = table.rows()
    with parquet.ParquetWriter(file, described, compression="zstd") as writer:
        while batch := list(islice(rows, _BATCH)):
            columns: list[list[Cell]] = [list(column) for column in zip(*batch, strict=True)]
            arrays = [pa.array(values, type=field.type) for values, field in zip(columns, fields, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=described))


def dataset(*, now: datetime) -> Path:
    """The archive of all public data; made anew when the one that is there is more than an hour old."""
    path = Path(settings.DATA_DIR) / "exports" / "pkb-dataset.zip"
    if path.is_file() and now.timestamp() - path.stat().st_mtime < DATASET_LIVES.total_seconds():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place and then moved: whoever reads the old one reads on.
    handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".zip")
    try:
        with os.fdopen(handle, "wb") as file:
            write_dataset(file, now=now)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    return path


def write_dataset(file: IO[bytes], *, now: datetime) -> None:
    """Every table as Parquet and JSON Lines, the problems, a schema and a data card, in one zip."""
    counts: dict[str, int] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for table in TABLES.values():
            counted = Table(
                name=table.name, meaning=table.meaning, columns=table.columns, rows=_counting(table, counts)
            )
            for format_name in ("jsonl", "parquet"):
                with archive.open(f"{table.name}.{format_name}", "w") as member:
                    for piece in written(counted, format=format_name):
                        member.write(piece)
        archive.writestr("problems.jsonl", "".join(json.dumps(problem) + "\n" for problem in _problems()))
        archive.writestr("schema.json", json.dumps(schema(), indent=2) + "\n")
        context = {"made_at": now, "tables": [(table, counts[table.name]) for table in TABLES.values()]}
        archive.writestr("README.md", render_to_string("runs/data_card.md.txt", context | {"site": settings.SITE_URL}))


def _counting(table: Table, counts: dict[str, int]) -> Any:
    def rows() -> Iterator[Row]:
        counts[table.name] = 0
        for row in table.rows():
            counts[table.name] += 1
            yield row

    return rows


def _problems() -> Iterator[dict[str, Any]]:
    for problem in registry.problems():
        yield {
            "number": problem.number,
            "problem": problem.slug,
            "title": problem.title,
            "summary": problem.summary,
            "revision": registry.revision(problem.slug),
            "signature": problem.signature,
            "parallelism": [value.value for value in problem.parallelism],
            "communication": [value.value for value in problem.communication],
            "block": problem.block.value,
            "stage": [value.value for value in problem.stage],
            "domain": problem.domain.value,
        }


def bundle(evaluation: Evaluation) -> bytes:
    """One evaluation with all that judges it again: source, request, problem, report, environment, the command."""
    submission = evaluation.submission
    report = latest_report(evaluation)
    request = EvaluationRequest(
        evaluation_id=str(evaluation.pk),
        problem=submission.problem,
        revision=evaluation.problem_revision,
        source=submission.source.files,
        backend=Backend(submission.backend),
        profile=evaluation.profile,
        mode=Mode(evaluation.mode),
        attempt=evaluation.attempt,
    )
    is_present = _revision(submission.problem) == evaluation.problem_revision
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in submission.source.files.files:
            archive.writestr(f"source/{file.path}", file.text)
        archive.writestr("request.json", request.to_json())
        if report is not None:
            archive.writestr("report.json", report.to_json())
            archive.writestr("environment.json", json.dumps(report.environment, indent=2) + "\n")
        if is_present:
            for path in sorted(registry.folder(submission.problem).glob("*.*")):
                archive.writestr(f"problem/{path.name}", path.read_bytes())
        context = {
            "evaluation": evaluation,
            "submission": submission,
            "report": report,
            "is_present": is_present,
            "made_at": timezone.now(),
            "site": settings.SITE_URL,
        }
        archive.writestr("README.md", render_to_string("runs/bundle.md.txt", context))
    return buffer.getvalue()


def _revision(slug: str) -> str | None:
    try:
        return registry.revision(slug)
    except registry.UnknownProblem:
        return None
