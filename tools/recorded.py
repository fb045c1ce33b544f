"""Lets reports of kernels and runs of models ship with the problems, as `manage.py recorded` then shows them.

    python -m tools.recorded ship REPORT.json.gz ...
    python -m tools.recorded export RUN NAME --published-by "Who, where, when, licence"

The first checks whole reports (.json or .json.gz) on the kernels of problems/data/entries. The second lets a run of the
site whose database is configured ship, without its programs.
"""

import argparse
import gzip
import json
import lzma
import os
import re
import sys
import uuid
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import django
import msgspec

if __name__ == "__main__":  # the models below need the site's settings
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()

from evaluator.contract import Backend, ContractError, EvaluationReport, Mode, Verdict
from portal.core.errors import Refusal, by_id
from portal.operations.recorded import kernels, runs
from portal.operations.recorded.reports import NotRecorded, check, read_reports, read_source
from portal.runs.models import Attempt, AttemptState, Run
from portal.submissions.queries import latest_report

_NAMESPACE = uuid.UUID("6f1c0a52-7f0e-5d0f-9f5a-0d6f5a1c9b11")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,78}")
_QUOTE = "(a line of the source)"
_LEAST_QUOTE = 12
"""Shorter lines are not taken for quotations: a brace or a `return` stands in every program."""
_NUMBERED = re.compile(r"^\s*\d*\s*\|")


def write_reports(path: Path, reports: Iterable[EvaluationReport]) -> None:
    path.write_bytes(lzma.compress("".join(f"{report.to_json()}\n" for report in reports).encode()))


def ship(path: Path) -> Path:
    """Put a whole report on one of the kernels among those that ship; returns their file.

    Raises:
        NotRecorded: it is no report, is on another text than the kernel's, did not pass, or contradicts its record.
    """
    try:
        data = path.read_bytes()
        report = EvaluationReport.from_json(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (ContractError, OSError, EOFError, zlib.error) as error:
        raise NotRecorded(f"{path} is no report: {error}") from error
    check(report, read_source(kernels.FOLDER / f"{report.problem}.py"))
    # The same evaluation has the same key, whatever the machine that judged it called it.
    parts = (report.problem, report.profile, report.source_digest, report.finished_at)
    key = str(uuid.uuid5(_NAMESPACE, "/".join(parts)))
    report = msgspec.structs.replace(report, evaluation_id=key)
    if report.mode is Mode.SWEEP:  # nothing is computed again from its calls
        report = msgspec.structs.replace(report, record=_without_marks(report))
    held = {known: other for known, other in read_reports(kernels.FOLDER / kernels.REPORTS).items() if known != key}
    write_reports(kernels.FOLDER / kernels.REPORTS, [*held.values(), report])
    return kernels.FOLDER / kernels.REPORTS


def export(run: Run, *, name: str, published_by: str) -> tuple[int, int]:
    """Write a run as a recorded run called `name`; returns how many reports, and of how many programs.

    Raises:
        Refusal: `name` is no file name, or nobody is named who published the programs.
    """
    _check_words(name, published_by)
    attempts = list(run.attempts.select_related("evaluation__submission__source", "submission__source"))
    reports = {attempt.pk: _reduced(attempt) for attempt in attempts if attempt.evaluation is not None}
    recorded = runs.RecordedRun(
        id=str(run.pk),
        model=run.model.name,
        version=run.model.version,
        provider=run.model.provider,
        notes=run.notes,
        published_by=published_by,
        **{name: getattr(run, name) for name in runs.DECLARED},
        created_at=run.created_at.isoformat(timespec="seconds"),
        programs=tuple(_program(attempt, reports.get(attempt.pk)) for attempt in attempts),
    )
    runs.FOLDER.mkdir(parents=True, exist_ok=True)
    judged = [report for report in reports.values() if report is not None]
    write_reports(runs.FOLDER / f"{name}.reports.xz", judged)
    (runs.FOLDER / f"{name}.json").write_bytes(msgspec.json.format(recorded.to_json().encode(), indent=1) + b"\n")
    return len(judged), len(attempts)


def _check_words(name: str, published_by: str) -> None:
    if not _NAME.fullmatch(name):
        remedy = "Use lower-case letters, digits, dots and hyphens, such as gpt-5.5-cuda."
        raise Refusal("name", name, "This is no name of a recorded run.", remedy)
    if not published_by.strip():
        remedy = "Say who published them, where, when and under which licence."
        raise Refusal("published_by", "", "Nobody is named who published the programs.", remedy)


def _program(attempt: Attempt, report: EvaluationReport | None) -> runs.RecordedProgram:
    is_by_text = attempt.state == AttemptState.ENDED and report is None
    return runs.RecordedProgram(
        problem=attempt.problem,
        digest=attempt.source_digest,
        backend=Backend(attempt.backend),
        sample=attempt.sample,
        step=attempt.step,
        verdict=Verdict(attempt.verdict) if is_by_text and attempt.verdict else None,
        message=attempt.message if is_by_text else "",
        evaluation=report.evaluation_id if report is not None else "",
    )


def _reduced(attempt: Attempt) -> EvaluationReport | None:
    """The report that an attempt shows, without fingerprints and without lines of its source; None before there is one.

    The fingerprints of outputs are random to a compressor and would be half of what ships. Nothing is computed from
    them but whether they arrived, which each call says otherwise.
    """
    assert attempt.evaluation is not None
    report = latest_report(attempt.evaluation) if attempt.evaluation.has_ended else None
    if report is None:
        return None
    bundle = attempt.evaluation.submission.source.files
    quoted = _without_quotes(json.loads(report.to_json()), source="\n".join(file.text for file in bundle.files))
    cleaned = EvaluationReport.from_json(json.dumps(quoted))
    return msgspec.structs.replace(cleaned, record=_without_marks(cleaned))


def _without_marks(report: EvaluationReport) -> Any:
    """The record of calls with empty fingerprints."""
    if report.record is None:
        return None
    sizes = tuple(
        msgspec.structs.replace(
            size, calls=tuple(msgspec.structs.replace(call, marks=("",) * len(call.marks)) for call in size.calls)
        )
        for size in report.record.sizes
    )
    return msgspec.structs.replace(report.record, sizes=sizes)


def _without_quotes(value: Any, *, source: str) -> Any:
    """`value`, as JSON has it, where no text of several lines holds one of `source`: logs and tracebacks quote them."""
    if isinstance(value, str) and "\n" in value:
        return "\n".join(_QUOTE if _is_quote(line, source) else line for line in value.split("\n"))
    if isinstance(value, list):
        return [_without_quotes(each, source=source) for each in value]
    if isinstance(value, dict):
        return {name: _without_quotes(each, source=source) for name, each in value.items()}
    return value


def _is_quote(line: str, source: str) -> bool:
    text = _NUMBERED.sub("", line).strip()
    return len(text) >= _LEAST_QUOTE and text in source


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.recorded", description=__doc__.partition("\n")[0])
    todo = parser.add_subparsers(dest="todo", required=True)
    shipping = todo.add_parser("ship", help="check reports on kernels and let them ship")
    shipping.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    exporting = todo.add_parser("export", help="let a run of this site ship, without its programs")
    exporting.add_argument("run")
    exporting.add_argument("name")
    exporting.add_argument("--published-by", default="", help="who published its programs, where, when, licence")
    options = parser.parse_args(arguments)
    if options.todo == "ship":
        return _ship_all(options.reports)
    try:
        run = by_id(Run.objects.select_related("model"), "run", options.run, "There is no such run.", "Check its id.")
        reports, programs = export(run, name=options.name, published_by=options.published_by)
    except Refusal as refusal:
        print(refusal.sentences, file=sys.stderr)
        return 1
    print(f"{options.name}: {reports} reports of {programs} programs")
    return 0


def _ship_all(paths: Sequence[Path]) -> int:
    """Let every report ship that can; name the others."""
    refused = 0
    for path in paths:
        try:
            print(f"{path} ships in {ship(path)}")
        except NotRecorded as reason:
            refused += 1
            print(f"refused: {path}: {reason}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
