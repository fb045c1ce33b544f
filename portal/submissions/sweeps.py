"""The points of a sweep: which a node is asked for, what it has measured, and what that comes to."""

import json
from collections.abc import Iterable
from typing import Any

from evaluator.contract import EvaluationReport, Mode, SweepPoint, Verdict
from evaluator.hardware import profiles
from evaluator.judging.points import NoSweep, summary, swept
from evaluator.judging.verdicts import FACTS
from portal.submissions.models import Evaluation
from portal.tabular.tables import Table, integer, number, text
from problems import registry


def names(evaluation: Evaluation) -> tuple[str, ...]:
    """The points that a sweep measures, in the order of its axis; () in other modes."""
    if evaluation.mode != Mode.SWEEP:
        return ()
    try:
        points = swept(registry.get(evaluation.submission.problem), profiles.get(evaluation.profile))
    except (NoSweep, registry.UnknownProblem):  # what could once be swept
        return ()
    return tuple(point.name for point in points)


def points_to_measure(evaluation: Evaluation) -> tuple[str, ...]:
    """Those that no try has passed yet, or all where each has; () in other modes.

    What an earlier try found wrong is judged again, so that the last report tells the sweep's verdict.
    """
    every = names(evaluation)
    passed = {name for name, point in evaluation.points.items() if point["verdict"] == Verdict.PASSED}
    return tuple(name for name in every if name not in passed) or every


def with_points(evaluation: Evaluation, points: Iterable[SweepPoint]) -> dict[str, Any]:
    """The stored points of a sweep with `points`, but for those that are not of its axis, or that the judge failed."""
    known = set(names(evaluation))
    good = [point for point in points if point.size in known and not FACTS[point.verdict].is_retried]
    return {**evaluation.points, **{point.size: json.loads(point.to_json()) for point in good}}


def points_of(evaluation: Evaluation) -> tuple[SweepPoint, ...]:
    """All that a sweep has measured in any try, the smallest value first."""
    points = (SweepPoint.from_json(json.dumps(point)) for point in evaluation.points.values())
    return tuple(sorted(points, key=lambda point: point.value))


def outcome(evaluation: Evaluation, report: EvaluationReport) -> dict[str, Any]:
    """The message of a sweep that passed, over the points of all its tries; {} otherwise."""
    if report.mode is not Mode.SWEEP or report.verdict is not Verdict.PASSED:
        return {}
    return {"message": summary(points_of(evaluation))}


_COLUMNS = (
    text("size", "The point: all other dimensions are those of the size before the colon."),
    integer("value", "On the axis, in its unit."),
    text("verdict", "PASSED where the submission is correct; the verdict otherwise."),
    number("submission_us", "Median time of the submission in microseconds.", "submission.median_us"),
    number("submission_p10_us", "10 % of its calls were shorter.", "submission.p10_us"),
    number("submission_p90_us", "10 % of its calls were longer.", "submission.p90_us"),
    number("reference_us", "Median time of the reference in microseconds.", "reference.median_us"),
    number("reference_p10_us", "10 % of its calls were shorter.", "reference.p10_us"),
    number("reference_p90_us", "10 % of its calls were longer.", "reference.p90_us"),
    number("speedup", "Reference / submission. It is never ranked."),
    number("speedup_low", "The lower end of the speedup's interval.", "low"),
    number("speedup_high", "The upper end.", "high"),
    number("floor_us", "The floor of a call; empty where there is none."),
    number("bus_bytes", "Bytes that over a time are the bus bandwidth; empty where it is no collective."),
    text("message", "Why there is no time."),
)


def table(evaluation: Evaluation) -> Table:
    """The points of a sweep as rows."""
    return Table(name="sweep", meaning="Time over size.", columns=_COLUMNS, entries=lambda: points_of(evaluation))
