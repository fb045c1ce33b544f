"""The maps of wrong elements of a report, as the submission page draws them."""

from collections.abc import Iterator
from itertools import islice
from math import prod
from typing import Any

from evaluator.contract import ErrorMap, ErrorPattern, EvaluationReport, Finding

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
