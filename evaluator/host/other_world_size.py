"""A check that passed is repeated on the other number of ranks of a slot's machine, by a judge that starts for that."""

import dataclasses
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from evaluator.contract import EvaluationReport, EvaluationRequest, Mode, Verdict
from evaluator.errors import EvaluatorError
from evaluator.hardware import profiles
from evaluator.host.job import ReportProgress
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.settings import JudgeSettings
from evaluator.judging import world_sizes
from problems import registry


class OtherJudge(Protocol):
    """What is needed of the judge of the other number of ranks."""

    @property
    def quarantine(self) -> str:
        """Why it must not take more work; empty while its slot is clean."""

    @property
    def error_log(self) -> str:
        """Errors of the judge in its last evaluation."""

    def evaluate(
        self,
        request: EvaluationRequest,
        *,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
        deadlines: Deadlines,
    ) -> EvaluationReport:
        """Judge one submission."""

    def close(self) -> None:
        """End every process that it started."""


class OtherWorldSize:
    """Keeps the judge of the other number of ranks, once one was needed.

    Args:
        settings: the slot's.
        start: starts a judge; raises EvaluatorError where the machine cannot.

    Attributes:
        error_log: errors of that judge in the last `check`.
    """

    def __init__(self, settings: JudgeSettings, *, start: Callable[[JudgeSettings], OtherJudge]) -> None:
        self._settings = settings
        self._start = start
        self._name = profiles.get(settings.profile).other_world_size if settings.other_world_size else ""
        self._judge: OtherJudge | None = None
        self.error_log = ""

    def applies_to(self, request: EvaluationRequest, report: EvaluationReport) -> bool:
        """Whether `report` is a pass that is to be checked on the other number of ranks."""
        if not self._name or request.mode is not Mode.CHECK or request.regime or report.verdict is not Verdict.PASSED:
            return False
        other = profiles.get(self._name)
        sizes = request.sizes or other.sizes[request.mode]
        return registry.get(request.problem).refuses(other.world_size, sizes) is None

    def check(
        self,
        request: EvaluationRequest,
        report: EvaluationReport,
        *,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
        deadlines: Deadlines,
    ) -> EvaluationReport:
        """`report`, which passed, joined with the result on the other number of ranks.

        Raises:
            EvaluationCancelled: `cancelled()` became true.
        """
        self.error_log = ""
        ranks = profiles.get(self._name).world_size
        if time.monotonic() >= deadlines.evaluation:
            return world_sizes.unseen(report, world_size=ranks, why="the time of the evaluation was used up")
        try:
            judge = self._ready_judge()
        except EvaluatorError as error:
            return world_sizes.unseen(report, world_size=ranks, why=str(error))
        second = judge.evaluate(
            msgspec.structs.replace(request, profile=self._name),
            progress=lambda stage, detail, fraction: progress(stage, f"on {ranks} ranks: {detail}", fraction),
            cancelled=cancelled,
            deadlines=deadlines,
        )
        self.error_log = judge.error_log
        return world_sizes.combined(report, second)

    def close(self) -> None:
        """End that judge."""
        judge, self._judge = self._judge, None
        if judge is not None:
            judge.close()

    def _ready_judge(self) -> OtherJudge:
        """The judge that is there, or a new one where there is none or its slot is not clean."""
        if self._judge is None or self._judge.quarantine:
            self.close()
            self._judge = self._start(
                dataclasses.replace(self._settings, profile=self._name, warm=False, other_world_size=False)
            )
        return self._judge
