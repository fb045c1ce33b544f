"""What one evaluation judges, on which slot, and until when."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from evaluator.contract import Backend, EvaluationRequest, Mode
from evaluator.errors import NodeTrouble
from evaluator.host.building.builder import Built
from evaluator.host.measure.call_checks import CallPolicy
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.judging.checks import Check
from problems import registry
from problems.spec.schema import Problem, Regime


@dataclass(frozen=True, kw_only=True)
class Job:
    """One request on one slot. Nothing in it changes, and every stage may read it.

    Attributes:
        request: what to judge.
        plan: the slot's profile, settings and confinement.
        deadlines: until when it may take its time, and until when it must be over.
        cancelled: asked often; once true, the evaluation ends.
    """

    request: EvaluationRequest
    plan: SlotPlan
    deadlines: Deadlines
    cancelled: Callable[[], bool]

    def check(self) -> None:
        """Check that this slot can judge the request. Reads nothing of the submission.

        Raises:
            NodeTrouble: it cannot.
        """
        if self.request.profile != self.plan.profile.name:
            raise NodeTrouble(f"this slot judges for profile {self.plan.profile.name}, not {self.request.profile}")
        try:
            registry.get(self.request.problem)
        except registry.UnknownProblem as error:
            raise NodeTrouble(str(error)) from error

    @property
    def problem(self) -> Problem:
        """The problem, which `check` has found."""
        return registry.get(self.request.problem)

    @property
    def mode(self) -> Mode:
        """How much of the judging is done."""
        return self.request.mode

    @property
    def dtype(self) -> str:
        """The dtype of the problem's inputs."""
        return self.request.input_dtype

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes, in their order."""
        return self.request.sizes or self.plan.profile.sizes[self.mode]

    @cached_property
    def policy(self) -> CallPolicy:
        """How calls are made."""
        return CallPolicy(
            timing_policy=self.plan.profile.timing_policy,
            settings=self.plan.settings,
            backend=self.request.backend,
            mode=self.mode,
            deadlines=self.deadlines,
            cancelled=self.cancelled,
        )

    @property
    def only_regime(self) -> Regime | None:
        """The regime of all checked calls, where the author asked for one."""
        return self.problem.regime(self.request.regime) if self.request.regime else None

    @property
    def series_s(self) -> float:
        """How many seconds the timed series of all sizes and groups may take."""
        settings = self.plan.settings
        return settings.series_s if self.plan.profile.is_ranked_by_speed else settings.practice_series_s

    @property
    def second_share(self) -> float:
        """The share of the series that a second worker group runs; 0 where there is none."""
        if self.mode is not Mode.RANKED or not self.policy.does(Check.SECOND_GROUP):
            return 0.0
        share = self.plan.settings.second_group_share
        return self.plan.profile.timing_policy.second_group_share if share is None else share

    def first_call_s(self, built: Built | None) -> float:
        """Extra seconds for the first call at a size: more where it may compile what `built` does not hold."""
        is_built = built is not None and bool(built.result.artefacts)
        # Some Triton kernels may depend on input values. Those are compiled in the first call.
        is_complete = is_built and self.request.backend is not Backend.TRITON
        may_build = self.request.backend is not Backend.PYTORCH and not is_complete
        return self.plan.settings.lazy_build_s if may_build else self.plan.settings.first_call_s
