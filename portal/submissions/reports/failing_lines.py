"""Where a submission failed: maps of wrong elements, lines of source, and logs and stacks that lead to them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from evaluator.contract import ErrorMap, ErrorPattern, EvaluationReport, Finding, Verdict

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
        for path, line in mentions(text, paths=paths):
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


def linked(text: str, paths: Iterable[str]) -> SafeString:
    """`text` as HTML, with `name:12`, `name(12)` and `File "name", line 12` linked for every name in `paths`.

    The paths are those of the submission's own files; what stands before them in the text, such as the folder in
    the sandbox, does not matter.
    """
    mention = _mention(paths)
    if mention is None:
        return format_html("{}", text)
    return format_html_join("", "{}", ((part,) for part in _parts(text, mention)))


def _mention(paths: Iterable[str]) -> re.Pattern[str] | None:
    """What a mention of a line of one of `paths` looks like; None without any path."""
    names = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.compile(rf'(?<![\w.-])(?P<path>{names})(?:"?, line |\(|:)(?P<line>\d{{1,7}})') if names else None


def mentions(text: str, *, paths: Iterable[str]) -> list[tuple[str, int]]:
    """The lines of `paths` that `text` names, each once, in their order."""
    pattern = _mention(paths)
    found = pattern.finditer(text) if pattern else ()
    return list(dict.fromkeys((each["path"], int(each["line"])) for each in found))


def own_frames(text: str, paths: Iterable[str]) -> str:
    """The lines of a stack that are in one of `paths`, with the code quoted below each; empty without any."""
    names = tuple(f'{path}"' for path in paths)
    kept: list[str] = []
    is_own = False
    for line in text.splitlines():
        is_frame = line.lstrip().startswith('File "')
        is_own = any(name in line for name in names) if is_frame else is_own and line.startswith("    ")
        if is_own:
            kept.append(line)
    return "\n".join(kept)


def _parts(text: str, mention: re.Pattern[str]) -> Iterator[str | SafeString]:
    end = 0
    for found in mention.finditer(text):
        yield text[end : found.start()]
        yield format_html('<a href="#{}-L{}">{}</a>', found["path"], found["line"], found[0])
        end = found.end()
    yield text[end:]


PATTERN_TITLES = {
    ErrorPattern.EVERYWHERE: "everywhere",
    ErrorPattern.ONE_SHARD: "one rank's part",
    ErrorPattern.ROWS: "whole rows",
    ErrorPattern.COLUMNS: "whole columns",
    ErrorPattern.BLOCK: "one block",
    ErrorPattern.SCATTERED: "scattered",
}

_LEVELS = 4
MOST_DRAWN = 16
"""The judge sends no more; a node may."""


def error_maps(report: EvaluationReport) -> tuple[dict[str, Any], ...]:
    """The first maps among the findings, in their order, with what their pictures need: cells, elements and sides."""
    found = (_view(finding, finding.error_map) for finding in report.findings if finding.error_map is not None)
    return tuple(islice(found, MOST_DRAWN))


def _view(finding: Finding, drawn: ErrorMap) -> dict[str, Any]:
    return {
        "finding": finding,
        "pattern": PATTERN_TITLES[drawn.pattern],
        "elements": prod(drawn.shape),
        "wrong": sum(map(sum, drawn.counts)),
        "height": len(drawn.counts),
        "width": max(map(len, drawn.counts), default=0),
        "cells": tuple(_cells(drawn)),
    }


def _cells(drawn: ErrorMap) -> Iterator[dict[str, Any]]:
    """The cells of the grid with wrong elements in them; their `level` is 1 to 4."""
    most = max(map(max, drawn.counts), default=0)
    height, width = len(drawn.counts), max(map(len, drawn.counts), default=0)
    rows, columns = (drawn.shape[-2] if len(drawn.shape) > 1 else 1), (drawn.shape[-1] if drawn.shape else 1)
    for row, counts in enumerate(drawn.counts):
        for column, count in enumerate(counts):
            if count:
                where = f"rows {_span(row, height, rows)}, columns {_span(column, width, columns)}"
                level = max(1, -(-count * _LEVELS // most))
                yield {"row": row, "column": column, "level": level, "title": f"{count} wrong in {where}"}


def _span(cell: int, cells: int, extent: int) -> str:
    """The indices that a cell of `cells` covers: element i lies in cell i * cells // extent."""
    first, last = -(-cell * extent // cells), -(-(cell + 1) * extent // cells) - 1
    return str(first) if first == last else f"{first} to {last}"
