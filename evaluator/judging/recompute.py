"""Computes score, interval and the verdict on the times again, from a report alone."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from evaluator.contract import EvaluationReport, SizeTiming, Timing, Verdict
from evaluator.judging.timing import conclude
from evaluator.judging.verdicts import decide
from problems.outputs.extremes import furthest

TIMING_VERDICTS = frozenset({Verdict.TIMING_INCONSISTENT, Verdict.BELOW_FLOOR})
_CLOSE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Recomputed:
    """What a report's own record gives: the timing, the verdict on it, and the differences from the report."""

    timing: Timing | None
    verdict: Verdict | None
    differences: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether the report agrees with its record."""
        return not self.differences


def recompute(report: EvaluationReport) -> Recomputed:
    """Score, interval, ranked value and verdict on the times of `report`, from its recorded calls."""
    if not report.mode.is_scored or report.is_untimed or report.verdict not in TIMING_VERDICTS | {Verdict.PASSED}:
        return Recomputed(timing=None, verdict=None, differences=())
    record = report.record
    if record is None or not record.sizes:
        return Recomputed(timing=None, verdict=None, differences=("the report has no record of its calls",))
    try:
        timing, against = conclude(record.sizes, record.rules)
    except (ValueError, ZeroDivisionError) as error:
        return Recomputed(timing=None, verdict=None, differences=(f"the record is incomplete: {error}",))
    verdict = decide(against).verdict if against else Verdict.PASSED
    return Recomputed(timing=timing, verdict=verdict, differences=tuple(_differences(report, timing, verdict)))


def _differences(report: EvaluationReport, timing: Timing, verdict: Verdict) -> Iterator[str]:
    if report.verdict is not verdict:
        yield f"the report says {report.verdict.value}, its calls give {verdict.value}"
    unchecked = [
        f"{size.size}: call {call.number}"
        for size in (report.record.sizes if report.record is not None else ())
        for call in size.calls
        if call.is_checked and call.max_error is None
    ]
    if unchecked:
        yield f"calls marked as checked have no error: {', '.join(unchecked)}"
    yield from _too_far(report)
    if report.timing is None:
        return
    for name in ("score", "low", "high", "coverage", "rule"):
        yield from _unlike(name, getattr(report.timing, name), getattr(timing, name))
    yield from _unlike_all("block", report.timing.blocks, timing.blocks)
    said = {size.size: size for size in report.timing.sizes}
    for size in timing.sizes:
        if size.size not in said:
            yield f"the report's timing lacks size {size.size}"
        else:
            yield from _unlike_size(said[size.size], size)


def _too_far(report: EvaluationReport) -> Iterator[str]:
    """Sizes whose calls err by more than their limit, though the report lists no extreme element that is allowed."""
    allowed = {
        size.size: max((furthest(check.elements) for check in size.outputs if check.extreme_elements), default=1.0)
        for size in report.sizes
    }
    for size in report.record.sizes if report.record is not None else ():
        largest = max((call.max_error for call in size.calls if call.max_error is not None), default=0.0)
        most = allowed.get(size.size, 1.0)
        if largest > most:
            yield f"size {size.size}: a call has an error of {largest:.3g} times its limit, {most:.3g} is allowed"


_OF_SIZES = ("score", "low", "high", "empty_us", "candidate_empty_us", "forgeable_us")


def _unlike_size(said: SizeTiming, found: SizeTiming) -> Iterator[str]:
    where = f"size {found.size}: "
    for side in ("candidate", "baseline"):
        for name in ("median_us", "p10_us", "p90_us"):
            reported, computed = getattr(getattr(said, side), name), getattr(getattr(found, side), name)
            yield from _unlike(f"{where}{side} {name}", reported, computed)
    for name in _OF_SIZES:
        yield from _unlike(f"{where}{name}", getattr(said, name), getattr(found, name))
    yield from _unlike_all(f"{where}ratio", said.ratios, found.ratios)
    yield from _unlike_all(f"{where}rank median", said.rank_medians_us, found.rank_medians_us)


def _unlike_all(name: str, said: tuple[float, ...], found: tuple[float, ...]) -> Iterator[str]:
    if len(said) != len(found):
        yield f"the report has {len(said)} values of {name}, its calls give {len(found)}"
        return
    for index, (left, right) in enumerate(zip(said, found, strict=True)):
        yield from _unlike(f"{name} {index + 1}", left, right)


def _unlike(name: str, said: float, found: float) -> Iterator[str]:
    if not math.isclose(said, found, rel_tol=_CLOSE):
        yield f"{name}: the report says {said:.6g}, its calls give {found:.6g}"
