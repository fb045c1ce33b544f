"""Which lines of a submission a verdict is about: marked in the listing and in the editor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluator.contract import EvaluationReport, Verdict
from portal.submissions import source_links

MOST_MARKS = 8
_WHY_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class FailingLine:
    """A line, counted from 1, and the message about it."""

    path: str
    line: int
    why: str


def marks_for_scripts(marks: Sequence[FailingLine]) -> str:
    """The lines as `path:line:why`, one below the other, as pages carry them for their scripts."""
    return "\n".join(f"{mark.path}:{mark.line}:{mark.why.replace(chr(10), ' ')}" for mark in marks)


def failing_lines(report: EvaluationReport, *, paths: Sequence[str]) -> tuple[FailingLine, ...]:
    """The lines that findings name; where they name none, those of the compiler, of exceptions or of stacks.

    A pass has none.
    """
    if report.verdict is Verdict.PASSED:
        return ()
    for source in (_findings, _build, _errors, _stacks):
        found = {(each.path, each.line): each for each in reversed(list(source(report, paths)))}
        if found:
            return tuple(reversed(found.values()))[:MOST_MARKS]
    return ()


def _findings(report: EvaluationReport, paths: Sequence[str]) -> Iterator[FailingLine]:
    for finding in report.findings:
        if finding.file and finding.file in paths and finding.line:
            yield FailingLine(path=finding.file, line=finding.line, why=finding.message[:_WHY_LENGTH])
        for path, line in source_links.mentions(finding.message, paths=paths):
            yield FailingLine(path=path, line=line, why=finding.message[:_WHY_LENGTH])


def _build(report: EvaluationReport, paths: Sequence[str]) -> Iterator[FailingLine]:
    log = report.build.log if report.build is not None and not report.build.succeeded else ""
    for text in log.splitlines():
        for path, line in source_links.mentions(text, paths=paths):
            yield FailingLine(path=path, line=line, why=text.strip()[:_WHY_LENGTH])


def _errors(report: EvaluationReport, paths: Sequence[str]) -> Iterator[FailingLine]:
    for rank in report.ranks:
        error = (rank.error or "").strip()
        for path, line in source_links.mentions(error, paths=paths)[-1:]:  # a traceback ends where it was raised
            yield FailingLine(path=path, line=line, why=f"rank {rank.rank}: {error.splitlines()[-1]}"[:_WHY_LENGTH])


def _stacks(report: EvaluationReport, paths: Sequence[str]) -> Iterator[FailingLine]:
    for rank in report.ranks:
        places = source_links.mentions(source_links.own_frames(rank.stack or "", paths=paths), paths=paths)
        for path, line in places[:1]:
            yield FailingLine(path=path, line=line, why=f"rank {rank.rank}: {rank.phase}"[:_WHY_LENGTH])
