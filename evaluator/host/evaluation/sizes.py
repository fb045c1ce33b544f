"""One worker group at every size: checked, brought to its speed, timed, recorded."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evaluator.contract import Mode
from evaluator.host.evaluation.job import Job
from evaluator.host.evaluation.trouble import TroubleWatch
from evaluator.host.measure.group_setup import GroupSetup
from evaluator.host.measure.size_run import SizeOutcome, SizeRun
from evaluator.judging.checks import Check
from problems.spec.schema import Regime, SizeName


@dataclass(frozen=True, kw_only=True)
class SizeRuns:
    """What every size of one worker group needs beside its setup.

    Attributes:
        job: what is judged.
        setup: the worker group and what measures it.
        trouble: blames what ends the group.
        known: by size, what an earlier group showed.
        before_timing: called before calls are timed; no process may start during a measurement.
        keep: takes the outcome of every size, however it ends.
    """

    job: Job
    setup: GroupSetup
    trouble: TroubleWatch
    known: Mapping[str, SizeOutcome]
    before_timing: Callable[[], None]
    keep: Callable[[SizeOutcome], None]

    def run(self) -> None:
        """Make all calls at all sizes.

        Raises:
            Ended: a check or the group ended the evaluation.
            EvaluatorError: the judge failed.
        """
        for size in self.job.sizes:
            with self.trouble.over(self.setup.group, size=size):
                run = SizeRun(self.setup, size, known=self.known.get(size))
            try:
                with self.trouble.over(self.setup.group, size=size, regime=run.last_regime):
                    self._make_calls(run, is_last=size == self.job.sizes[-1])
            finally:
                # A record that ended early is evidence too.
                self.keep(run.outcome())

    def _make_calls(self, run: SizeRun, *, is_last: bool) -> None:
        run.verify()
        if self.job.mode.is_timed:
            self.before_timing()
            run.warm_up()
            run.time()
        elif self.job.mode is Mode.PROFILE:
            run.warm_up()
        if self.setup.group_number == 1:
            self._look_closer(run, is_last=is_last)

    def _look_closer(self, run: SizeRun, *, is_last: bool) -> None:
        """What is seen once, in the first group, after everything that is timed at this size."""
        if self.job.mode.is_timed:
            run.loop()
        if self.job.plan.settings.records_work:
            run.count_links()
            if is_last:
                # Last, because a profiler may slow everything that runs after it.
                run.record_work()


def drawn_regimes(job: Job) -> dict[str, tuple[Regime, ...]]:
    """Regimes of checked calls by size: all at the first size, a few secret ones at every further size."""
    if job.request.regime or not job.policy.does(Check.REGIMES):
        return {}
    found: dict[str, tuple[Regime, ...]] = {}
    for size in job.sizes:
        regimes = job.problem.regimes_at(SizeName(size), job.plan.profile.world_size, job.dtype)
        count = job.plan.settings.further_regimes if found else len(regimes)
        found[size] = tuple(secrets.SystemRandom().sample(regimes, min(count, len(regimes))))
    return found
