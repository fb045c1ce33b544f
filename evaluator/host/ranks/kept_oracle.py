"""The oracle ranks of a slot between evaluations: kept warm, tried out, replaced in time."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

from evaluator.contract import Canary
from evaluator.errors import EvaluatorError
from evaluator.host.ranks.oracle_group import OracleGroup

_EVALUATIONS = 50
"""So many evaluations one group of oracle ranks serves."""


class KeptOracle:
    """Gives out oracle ranks that are ready and whose devices have proved to work.

    Args:
        start: starts oracle ranks; raises EvaluatorError.

    Attributes:
        canaries: what they proved, and when.
        wrong: what their devices no longer do right, in words; once it says something, it stays.
    """

    def __init__(self, start: Callable[[], OracleGroup]) -> None:
        self._start = start
        self._oracle: OracleGroup | None = None
        self._uses = 0
        self.canaries: list[Canary] = []
        self.wrong = ""

    @property
    def processes(self) -> list[int]:
        """The processes of the oracle ranks, where there are any."""
        return self._oracle.processes if self._oracle is not None else []

    def start(self) -> OracleGroup:
        """Start new oracle ranks in the background; raises EvaluatorError."""
        self._oracle = self._start()
        self._uses = 0
        return self._oracle

    def take(self) -> OracleGroup:
        """The oracle ranks, ready; new ones where the old have ended or served long enough.

        Raises:
            EvaluatorError: they do not start, or their devices no longer calculate right.
        """
        oracle = self._oracle
        if oracle is None or not oracle.is_alive or self._uses >= _EVALUATIONS:
            self.drop()
            oracle = self.start()
        oracle.wait_until_ready()
        if not self._uses:
            self._try_out(oracle, is_full=True)
        self._uses += 1
        return oracle

    def prove(self, *, is_full: bool) -> None:
        """Have living oracle ranks prove that their devices still work; raises EvaluatorError where they do not."""
        if self._oracle is not None and self._oracle.is_alive:
            self._try_out(self._oracle, is_full=is_full)

    def forget_canaries(self) -> None:
        """Keep the last canary alone: it stands before the next evaluation."""
        self.canaries = self.canaries[-1:]

    def drop(self) -> None:
        """End the oracle ranks; raises EvaluatorError where something of them is still there."""
        oracle, self._oracle = self._oracle, None
        if oracle is not None:
            oracle.close()

    def close(self) -> None:
        """End the oracle ranks for good."""
        with contextlib.suppress(EvaluatorError):
            self.drop()

    def _try_out(self, oracle: OracleGroup, *, is_full: bool) -> None:
        failures = oracle.try_out(is_full=is_full)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.canaries.append(Canary(at=at, is_full=is_full, failures=failures))
        if failures:
            self.wrong = "; ".join(failures)
            raise EvaluatorError(f"this node no longer calculates right: {self.wrong}")
