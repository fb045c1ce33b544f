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
from problems.spec.schema import SizeName

_FIRST, _FIRST_S, _SETTLING, _CALLS = 8, 0.2, 3, 8
"""How often the reference is called at a size before the submission is revealed. There are at most so many first calls,
and no new one after so many seconds. A few follow after a pause in which ranks may have started. Then come those whose
times are kept."""


@dataclass(frozen=True, kw_only=True)
class TimesAlone:
    """The reference at a size before any rank could read the submission: times of calls in ns, and the GPUs then."""

    times_ns: tuple[int, ...] = ()
    gpus: tuple[GpuReading, ...] = ()


class ReferenceAlone:
    """Times the reference before the reveal, where the evaluation counts. Later legs are compared with these times."""

    def __init__(self, job: Job, *, watch: SlotWatch, stages: StageTimes) -> None:
        self._job = job
        self._watch = watch
        self._stages = stages
        self._opened: dict[str, ReferenceClock] = {}

    def open(self, trusted: TrustedRanks) -> None:
        """Make the first calls at the first size, while worker groups may still start; raises NodeTrouble.

        Not at `large`, where the oracle may need the memory that starting ranks need.
        """
        size = self._job.sizes[0]
        if self._job.mode is Mode.RANKED and size != SizeName.LARGE:
            with self._stages.enter(Stage.STARTING, f"{size}: first calls of the reference"), without_the_submission():
                self._opened[size] = self._first_calls(trusted, size)

    def time(self, trusted: TrustedRanks) -> Mapping[str, TimesAlone]:
        """Times by size; none where the evaluation does not count. Raises NodeTrouble."""
        found: dict[str, TimesAlone] = {}
        for size in self._job.sizes if self._job.mode is Mode.RANKED else ():
            with self._stages.enter(Stage.STARTING, f"{size}: the reference alone"), without_the_submission():
                clock = self._opened.pop(size, None) or self._first_calls(trusted, size)
                trusted.oracle.warm_up()
                for _ in range(_SETTLING):
                    clock.time()
                found[size] = self._kept_calls(clock)
        return found

    def _first_calls(self, trusted: TrustedRanks, size: str) -> ReferenceClock:
        clock = _clock(self._job, trusted, size)
        clock.open(calls=_FIRST, seconds=_FIRST_S)
        return clock

    def _kept_calls(self, clock: ReferenceClock) -> TimesAlone:
        gpus: list[GpuReading] = []
        with self._watch.around(MOMENT_ALONE, calls=_CALLS, into=gpus):
            times = tuple(clock.time().time.longest_ns for _ in range(_CALLS))
        return TimesAlone(times_ns=times, gpus=tuple(gpus))


def rehearse(job: Job, trusted: TrustedRanks) -> None:
    """A few calls of the reference at every size; raises EvaluatorError."""
    for size in job.sizes:
        _clock(job, trusted, size).open(calls=2, seconds=0.0)


def _clock(job: Job, trusted: TrustedRanks, size: str) -> ReferenceClock:
    """Opens the size with a secret of its own, so that the evaluation's inputs stay unseen."""
    opened = trusted.open_size(problem=job.request.problem, size=size, dtype=job.dtype, key=secrets.token_bytes(32))
    return ReferenceClock(trusted, opened, itertools.count())
