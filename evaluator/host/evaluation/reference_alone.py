"""The reference at all sizes without the submission: before any rank can read it, or where it is over."""

import itertools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.contract import MOMENT_ALONE, GpuReading, Mode, Stage
from evaluator.host.evaluation.job import Job
from evaluator.host.evaluation.stage_times import StageTimes
from evaluator.host.evaluation.trouble import without_the_submission
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure.references import ReferenceClock
from evaluator.host.ranks.trusted_ranks import TrustedRanks

_FIRST, _FIRST_S, _CALLS = 8, 0.2, 8
"""How often the reference is called at a size before the submission is revealed. There are at most so many first calls,
and no new one after so many seconds. Then come those whose times are kept."""


@dataclass(frozen=True, kw_only=True)
class Alone:
    """The reference at a size before any rank could read the submission: times of calls in ns, and the GPUs then."""

    times_ns: tuple[int, ...] = ()
    gpus: tuple[GpuReading, ...] = ()


def time_alone(job: Job, trusted: TrustedRanks, *, watch: SlotWatch, stages: StageTimes) -> Mapping[str, Alone]:
    """Times of the reference by size, where the evaluation counts. Later legs are compared with them.

    Raises:
        NodeTrouble: the reference failed.
    """
    found: dict[str, Alone] = {}
    for size in job.sizes if job.mode is Mode.RANKED else ():
        with stages.enter(Stage.STARTING, f"{size}: the reference alone"), without_the_submission():
            clock = _clock(job, trusted, size)
            trusted.oracle.warm_up()
            clock.open(calls=_FIRST, seconds=_FIRST_S)
            found[size] = _kept_calls(clock, watch)
    return found


def rehearse(job: Job, trusted: TrustedRanks) -> None:
    """A few calls of the reference at every size; raises EvaluatorError."""
    for size in job.sizes:
        _clock(job, trusted, size).open(calls=2, seconds=0.0)


def _clock(job: Job, trusted: TrustedRanks, size: str) -> ReferenceClock:
    """Opens the size with a secret of its own, so that the evaluation's inputs stay unseen."""
    opened = trusted.open_size(problem=job.request.problem, size=size, dtype=job.dtype, key=secrets.token_bytes(32))
    return ReferenceClock(trusted, opened, itertools.count())


def _kept_calls(clock: ReferenceClock, watch: SlotWatch) -> Alone:
    gpus: list[GpuReading] = []
    with watch.around(MOMENT_ALONE, calls=_CALLS, into=gpus):
        times = tuple(clock.time().time.longest_ns for _ in range(_CALLS))
    return Alone(times_ns=times, gpus=tuple(gpus))
