"""The trusted ranks of a slot between evaluations: kept warm, tried out, replaced in time."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

from evaluator.contract import Canary
from evaluator.errors import EvaluatorError
from evaluator.host.ranks.trusted_ranks import TrustedRanks

_EVALUATIONS = 50
"""So many evaluations they serve."""


class KeptRanks:
    """Gives out trusted ranks that are ready and whose devices have proved to work.

    Args:
        start: starts them; raises EvaluatorError.

    Attributes:
        canaries: what they proved, and when.
        wrong: what their devices no longer do right, in words; once it says something, it stays.
    """

    def __init__(self, start: Callable[[], TrustedRanks]) -> None:
        self._start = start
        self._ranks: TrustedRanks | None = None
        self._uses = 0
        self.canaries: list[Canary] = []
        self.wrong = ""

    @property
    def processes(self) -> list[int]:
        """Their processes, where there are any."""
        return self._ranks.processes if self._ranks is not None else []

    def start(self) -> TrustedRanks:
        """Start new ones in the background; raises EvaluatorError."""
        self._ranks = self._start()
        self._uses = 0
        return self._ranks

    def take(self) -> TrustedRanks:
        """The trusted ranks, ready; new ones where the old have ended or served long enough.

        Raises:
            EvaluatorError: they do not start, or their devices no longer calculate right.
        """
        ranks = self._ranks
        if ranks is None or not ranks.is_alive or self._uses >= _EVALUATIONS:
            self.drop()
            ranks = self.start()
        ranks.wait_until_ready()
        if not self._uses:
            self._try_out(ranks, is_full=True)
        self._uses += 1
        return ranks

    def prove(self, *, is_full: bool) -> None:
        """Have living ranks prove that their devices still work; raises EvaluatorError where they do not."""
        if self._ranks is not None and self._ranks.is_alive:
            self._try_out(self._ranks, is_full=is_full)

    def forget_canaries(self) -> None:
        """Keep the last canary alone: it stands before the next evaluation."""
        self.canaries = self.canaries[-1:]

    def drop(self) -> None:
        """End them; raises EvaluatorError where something of them is still there."""
        ranks, self._ranks = self._ranks, None
        if ranks is not None:
            ranks.close()

    def close(self) -> None:
        """End them for good."""
        with contextlib.suppress(EvaluatorError):
            self.drop()

    def _try_out(self, ranks: TrustedRanks, *, is_full: bool) -> None:
        failures = ranks.oracle.try_out(is_full=is_full)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.canaries.append(Canary(at=at, is_full=is_full, failures=failures))
        if failures:
            self.wrong = "; ".join(failures)
            raise EvaluatorError(f"this node no longer calculates right: {self.wrong}")
