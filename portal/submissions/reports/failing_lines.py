"""Which lines of a submission a verdict is about: marked in the listing and in the editor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluator.contract import EvaluationReport, Verdict
from portal.submissions.reports import source_links

MOST_MARKS = 8
_WHY_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class FailingLine:
    """A line, counted from 1, and the message about it.

    `ranks` are named where several lines share one finding. At a quiet line ranks wait for one that fails elsewhere.
    """

    path: str
    line: int
    why: str
    ranks: str = ""
    is_quiet: bool = False


def marks_for_scripts(marks: Sequence[FailingLine]) -> str:
    """The lines as `path:line:kind:why`, one below the other, as pages carry them for their scripts."""
    return "\n".join(
        f"{mark.path}:{mark.line}:{'waits' if mark.is_quiet else 'fails'}:{mark.why.replace(chr(10), ' ')}"
        for mark in marks
    )


def failing_lines(report: EvaluationReport, *, paths: Sequence[str]) -> tuple[FailingLine, ...]:
    """The lines of the findings, else of the compiler, then those at which other ranks wait; a pass has none.

    No rank alone is the cause of a deadlock: there the lines at which ranks wait are those of the failure.
    """
    if report.verdict is Verdict.PASSED:
        return ()
    failing = list(_findings(report, paths)) or list(_build(report, paths))
    found: dict[tuple[str, int], FailingLine] = {}
    for mark in (*failing, *_waiting(report, paths)):
        found.setdefault((mark.path, mark.line), mark)
    return tuple(found.values())[:MOST_MARKS]


def _findings(report: EvaluationReport, paths: Sequence[str]) -> Iterator[FailingLine]:
    for finding in report.findings:
        if finding.file and finding.file in paths and finding.line:
            yield FailingLine(path=finding.file, line=finding.line, why=finding.message[:_WHY_LENGTH])


def _build(report: EvaluationReport, paths: Sequence[str]) -> Iterator[FailingLine]:
    log = report.build.log if report.build is not None and not report.build.succeeded else ""
    for text in log.splitlines():
        for path, line in source_links.mentions(text, paths=paths):
            yield FailingLine(path=path, line=line, why=text.strip()[:_WHY_LENGTH])


def _waiting(report: EvaluationReport, paths: Sequence[str]) -> Iterator[FailingLine]:
    together: dict[tuple[str, int], list[int]] = {}
    for rank in report.ranks:
        if rank.is_waiting and rank.file and rank.file in paths and rank.line:
            together.setdefault((rank.file, rank.line), []).append(rank.rank)
    for (path, line), ranks in together.items():
        who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
        if report.verdict is Verdict.DEADLOCK:
            yield FailingLine(path=path, line=line, why=report.message[:_WHY_LENGTH], ranks=who)
        else:
            why = f"{who} {'waits' if len(ranks) == 1 else 'wait'} here"
            yield FailingLine(path=path, line=line, why=why, is_quiet=True)
