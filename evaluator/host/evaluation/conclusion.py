"""The end of an evaluation in which every call was correct: its timing, and the pass."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.contract import Finding, SizeRecord, SizeResult, Timing, Verdict, is_informative
from evaluator.host.evaluation.job import Job
from evaluator.judging import timing


@dataclass(frozen=True, kw_only=True)
class TimedSeries:
    """The timing of all sizes, and what speaks against it."""

    timing: Timing
    findings: tuple[Finding, ...]


def compare(job: Job, records: Sequence[SizeRecord]) -> TimedSeries:
    """Compare the times of submission and reference."""
    rules, without = job.plan.profile.timing_rules(), job.plan.settings.without
    found, against = timing.conclude(records, rules, without=without)
    return TimedSeries(timing=found, findings=tuple(against))


def passed(job: Job, *, results: Sequence[SizeResult], records: Sequence[SizeRecord], timed: Timing | None) -> Finding:
    """The pass, in words."""
    checked = sum(result.checked_calls for result in results)
    message = f"correct on {job.plan.profile.world_size} ranks in all {checked} checked calls"
    if drawn := {call.regime for record in records for call in record.calls if call.regime}:
        message += f", also in {len(drawn)} {'regimes that are' if len(drawn) > 1 else 'regime that is'} not timed"
    if timed is not None:
        message += _speed(timed)
    return Finding(verdict=Verdict.PASSED, message=message)


def disagreement(findings: Sequence[Finding]) -> Finding:
    """The finding where the first worker group was correct and the second ended with `findings`."""
    last = findings[-1]
    message = f"correct in one worker group, not in a second one: {last.message}"
    return Finding(verdict=Verdict.NONDETERMINISTIC, message=message, size=last.size)


def _speed(timed: Timing) -> str:
    """The end of the message of a pass."""
    if not is_informative(timed.low, timed.high):
        return "; its times were too noisy to tell how fast it is"
    return f"; {timed.score:.2f} times as fast as the reference"
