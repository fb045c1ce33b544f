"""The trusted ranks of a slot between evaluations: kept warm, tested, and replaced in time.

Their replacements start in two steps, as worker groups do (see `waiting_groups`): importing takes seconds of one
processor, and may run during a measurement.
"""

import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from evaluator.contract import Canary
from evaluator.errors import EvaluatorError
from evaluator.host.ranks.trusted_ranks import TrustedRanks

logger = logging.getLogger(__name__)

_EVALUATIONS = 50
"""How many evaluations they serve."""

_STARTING_S = 5.0
"""With less time than this left, no others are started in place of ranks that did not start."""


class KeptRanks:
    """Provides trusted ranks that are ready and whose devices passed the canary.

    Args:
        start: starts them; raises EvaluatorError.

    Attributes:
        canaries: the results of the canary, with times.
        wrong: what their devices compute wrongly, in words; once set, it stays.
    """

    def __init__(self, start: Callable[[], TrustedRanks]) -> None:
        self._start = start
        self._ranks: TrustedRanks | None = None
        self._next: TrustedRanks | None = None
        self._uses = 0
        self._within: Callable[[float], float] | None = None
        self.canaries: list[Canary] = []
        self.wrong = ""

    @property
    def processes(self) -> list[int]:
        """Their processes and those of their replacement, where there are any."""
        return [pid for ranks in (self._ranks, self._next) if ranks is not None for pid in ranks.processes]

    @property
    def are_spent(self) -> bool:
        """Whether they serve their last evaluation, or have served it."""
        return self._uses >= _EVALUATIONS

    def prepare(self) -> None:
        """Let a replacement import; raises EvaluatorError."""
        if self._next is None:
            self._next = self._start()

    def limit(self, within: Callable[[float], float] | None) -> None:
        """Shorten the time for every answer, of these and of those that are started later; None: do not."""
        self._within = within
        if self._ranks is not None:
            self._ranks.limit(within)

    def start(self) -> TrustedRanks:
        """Start new ones in the background; raises EvaluatorError."""
        ranks, self._next = self._next, None
        if ranks is not None and not ranks.is_alive:
            ranks.close()
            ranks = None
        self._ranks = ranks or self._start()
        self._ranks.limit(self._within)
        self._ranks.start_ranks()
        self._uses = 0
        return self._ranks

    def take(self) -> TrustedRanks:
        """The trusted ranks, ready; new ones where the old have ended or served long enough.

        Raises:
            EvaluatorError: they do not start, or their devices compute wrongly.
        """
        ranks = self._ranks
        if ranks is None or not ranks.is_alive or self.are_spent:
            self.drop()
            ranks = self.start()
        ranks = self._ready(ranks)
        if not self._uses:
            self._try_out(ranks, is_full=True)
        self._uses += 1
        return ranks

    def prove(self, *, is_full: bool) -> None:
        """Run the canary on living ranks; raises EvaluatorError where a device fails it."""
        if self._ranks is not None and self._ranks.is_alive:
            self._try_out(self._ranks, is_full=is_full)

    def forget_canaries(self) -> None:
        """Keep only the last canary, which counts for the next evaluation."""
        self.canaries = self.canaries[-1:]

    def drop(self) -> None:
        """End them; raises EvaluatorError where a process is left."""
        ranks, self._ranks = self._ranks, None
        if ranks is not None:
            ranks.close()

    def close(self) -> None:
        """End them and their replacement for good."""
        with contextlib.suppress(EvaluatorError):
            self.drop()
        following, self._next = self._next, None
        if following is not None:
            with contextlib.suppress(EvaluatorError):
                following.close()

    def _ready(self, ranks: TrustedRanks) -> TrustedRanks:
        """`ranks` once they are ready, or others in their place, once, if there is time; raises EvaluatorError.

        They may have started while something of an earlier evaluation still held memory.
        """
        try:
            ranks.wait_until_ready()
        except EvaluatorError as error:
            if self._within is not None and self._within(_STARTING_S) < _STARTING_S:
                raise
            logger.warning("trusted ranks did not start, and new ones are tried: %s", error)
            self.drop()
            ranks = self.start()
            ranks.wait_until_ready()
        return ranks

    def _try_out(self, ranks: TrustedRanks, *, is_full: bool) -> None:
        failures = ranks.oracle.try_out(is_full=is_full)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.canaries.append(Canary(at=at, is_full=is_full, failures=failures))
        if failures:
            self.wrong = "; ".join(failures)
            raise EvaluatorError(f"this node no longer computes correctly: {self.wrong}")
