"""Until when an evaluation may use its slot: until its deadline, and a little longer to end it; or until cancelled."""

import math
import time
from collections.abc import Callable

from evaluator.errors import Cancelled

MOST_OVERRUN_S = 30.0
"""An evaluation that passes its deadline leaves its slot within so many seconds, or the slot goes into quarantine."""

_STEP_S, _ANSWER_S, _ENDING_S, _KILLING_S = 5.0, 15.0, 25.0, 28.0
"""When after the deadline must be over: a step of the ranks, an answer of trusted ranks, all proofs, and killing."""

_LEAST_S, _LEAST_KILLING_S = 0.1, 2.0


class Deadlines:
    """The deadlines of one evaluation or build, on the monotonic clock.

    Every method that takes seconds shortens them where the deadline of its kind of wait comes sooner.

    Attributes:
        evaluation: when the evaluation should be over.
        cancelled: asked often; once true, nobody wants the work any more.
    """

    def __init__(self, evaluation: float, cancelled: Callable[[], bool] = lambda: False) -> None:
        self.evaluation = evaluation
        self.cancelled = cancelled

    def refuse_cancelled(self, what: str = "the evaluation") -> None:
        """Raise Cancelled where nobody wants it any more."""
        if self.cancelled():
            raise Cancelled(f"{what} was cancelled")

    @property
    def is_over(self) -> bool:
        """Whether no time is left for proofs: what is silent now proves nothing."""
        return time.monotonic() >= self.evaluation + _ENDING_S - _LEAST_S

    def step(self, seconds: float) -> float:
        """For a step of the ranks that run the submission."""
        return self._until(_STEP_S, seconds)

    def answer(self, seconds: float) -> float:
        """For an answer of trusted ranks, or ranks that start."""
        return self._until(_ANSWER_S, seconds)

    def ending(self, seconds: float) -> float:
        """For what proves that node and slot are well."""
        return self._until(_ENDING_S, seconds)

    def killing(self, seconds: float) -> float:
        """For processes that were killed to end."""
        return self._until(_KILLING_S, seconds, least_s=_LEAST_KILLING_S)

    def _until(self, after_s: float, seconds: float, *, least_s: float = _LEAST_S) -> float:
        return min(seconds, max(least_s, self.evaluation + after_s - time.monotonic()))


NO_DEADLINES = Deadlines(math.inf)
"""For work that no evaluation waits for."""
