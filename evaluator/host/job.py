"""What one evaluation judges, on which slot, and until when."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from evaluator.contract import Backend, EvaluationRequest, Mode, Stage, StageTime, SweepPoint
from evaluator.errors import NodeFailure
from evaluator.hardware.profiles import Profile
from evaluator.host.building.builder import Built
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.resources import Resources
from evaluator.host.settings import JudgeSettings
from evaluator.judging.checks import Check
from problems import registry
from problems.spec.schema import Problem, Regime

logger = logging.getLogger(__name__)

_SWEPT_SIZES = 2
"""A point of a sweep is timed as long as one of so many ranked sizes."""


class ReportProgress(Protocol):
    """Takes the stage of an evaluation, a description, and the fraction done; of a sweep, all points so far."""

    def __call__(
        self, stage: Stage, detail: str, fraction: float | None, points: tuple[SweepPoint, ...] = (), /
    ) -> None:
        """Learn of it."""


def no_progress(_stage: Stage, _detail: str, _fraction: float | None, _points: tuple[SweepPoint, ...] = ()) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One request on one slot. Every stage may read it, and only the seconds of stages change in it.

    Attributes:
        request: what to judge.
        resources: the slot's profile, settings and confinement.
        deadlines: until when it may take its time, when it must be over, and whether it is still wanted.
        progress: learns of every stage that is entered.
    """

    request: EvaluationRequest
    resources: Resources
    deadlines: Deadlines
    progress: ReportProgress = no_progress
    _seconds: dict[Stage, float] = field(default_factory=dict, init=False, repr=False)

    def check(self) -> None:
        """Check that this slot can judge the request. Reads nothing of the submission.

        Raises:
            NodeFailure: it cannot.
        """
        if self.request.profile != self.profile.name:
            raise NodeFailure(f"this slot judges for profile {self.profile.name}, not {self.request.profile}")
        try:
            registry.get(self.request.problem)
        except registry.UnknownProblem as error:
            raise NodeFailure(str(error)) from error
        if self.mode is Mode.SWEEP and not (self.request.sizes and self.profile.measures_time):
            raise NodeFailure(f"the sweep of {self.request.problem} on {self.profile.name} names no points, or cannot")

    @property
    def profile(self) -> Profile:
        """The slot's profile."""
        return self.resources.profile

    @property
    def settings(self) -> JudgeSettings:
        """The slot's settings."""
        return self.resources.settings

    @property
    def problem(self) -> Problem:
        """The problem, which `check` has found."""
        return registry.get(self.request.problem)

    @property
    def mode(self) -> Mode:
        """How much of the judging is done."""
        return self.request.mode

    @property
    def is_timed(self) -> bool:
        """Whether the mode times calls, and the profile can."""
        return self.mode.is_timed and self.profile.measures_time

    @property
    def dtype(self) -> str:
        """The dtype of the problem's inputs."""
        return self.request.input_dtype

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes, in their order."""
        return self.request.sizes or self.profile.sizes[self.mode]

    def does(self, check: Check) -> bool:
        """Whether `check` is not switched off."""
        return check not in self.settings.without

    @contextmanager
    def stage(self, stage: Stage, detail: str, fraction: float | None = None) -> Iterator[None]:
        """Report `stage` with a description and the fraction done, and add the time inside to it."""
        self.progress(stage, detail, fraction)
        begun = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - begun
            self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds
            logger.debug("evaluation %s: %s, %s: %.2f s", self.request.evaluation_id, stage, detail, seconds)

    @property
    def stages(self) -> tuple[StageTime, ...]:
        """The stages that were entered, in their order."""
        return tuple(StageTime(stage=stage, seconds=self._seconds[stage]) for stage in Stage if stage in self._seconds)

    @property
    def counts_collectives(self) -> bool:
        """Whether library collectives must not move this submission's data."""
        return self.request.backend is not Backend.PYTORCH and self.does(Check.COLLECTIVES)

    @property
    def only_regime(self) -> Regime | None:
        """The regime of all checked calls, where the author asked for one."""
        return self.problem.regime(self.request.regime) if self.request.regime else None

    def budget_s(self, share: float) -> float:
        """How many seconds the timed series of one size may take that a group runs with this `share` of all."""
        settings = self.settings
        series_s = settings.series_s if self.profile.is_ranked_by_speed else settings.practice_series_s
        return series_s * share / (_SWEPT_SIZES if self.mode is Mode.SWEEP else len(self.sizes))

    @property
    def second_share(self) -> float:
        """The share of the series that a second worker group runs; 0 where there is none."""
        if self.mode is not Mode.RANKED or not self.is_timed or not self.does(Check.SECOND_GROUP):
            return 0.0
        return self.resources.second_group_share

    def first_call_s(self, built: Built | None) -> float:
        """Extra seconds for the first call at a size: more where it may compile what `built` does not hold."""
        is_built = built is not None and bool(built.result.artefacts)
        # Some Triton kernels may depend on input values. Those are compiled in the first call.
        is_complete = is_built and self.request.backend is not Backend.TRITON
        may_build = self.request.backend is not Backend.PYTORCH and not is_complete
        return self.settings.lazy_build_s if may_build else self.settings.first_call_s
