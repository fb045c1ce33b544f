"""The ranks that wait for a slot's next evaluation: worker groups without a submission, and trusted ranks.

Both start in two steps, so that no evaluation waits for torch. Importing uses one processor for seconds, and may run
during a measurement. Starting ranks uses the GPUs, and waits until everything of the evaluation is timed and its own
ranks are being ended.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from evaluator.contract import Canary
from evaluator.errors import EvaluatorError
from evaluator.host.process.deadlines import NO_DEADLINES, Deadlines
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.worker_group import WorkerGroup

logger = logging.getLogger(__name__)

_EVALUATIONS = 50
"""How many evaluations they serve."""

_STARTING_S = 5.0
"""With less time than this left, no others are started in place of ranks that did not start."""


class WaitingGroups:
    """Keeps up to `wanted` started groups, and replaces those older than `age_s` seconds.

    Args:
        start: starts a group; raises EvaluatorError.
        wanted: how many are to wait.
        age_s: how long one may wait.
    """

    def __init__(self, start: Callable[[], WorkerGroup], *, wanted: int, age_s: float) -> None:
        self._start = start
        self.wanted = wanted
        self._age_s = age_s
        self._groups: list[WorkerGroup] = []

    @property
    def groups(self) -> tuple[WorkerGroup, ...]:
        """Those that wait now, the oldest first."""
        return tuple(self._groups)

    @property
    def folders(self) -> set[str]:
        """The names of their private folders."""
        return {group.sandbox.folder for group in self._groups}

    @property
    def processes(self) -> list[int]:
        """All their processes; none of them has seen a submission."""
        return [pid for group in self._groups for pid in group.sandbox.processes.descendants()]

    def prepare(self) -> None:
        """Let as many groups import as are wanted; raises EvaluatorError."""
        while len(self._groups) < self.wanted:
            self._groups.append(self._start())

    def start_prepared(self) -> None:
        """Let the groups that import, or have imported, start their ranks; starts no further group."""
        for group in self._groups:
            group.start_ranks()

    def refill(self) -> None:
        """Let as many groups start their ranks as are wanted; raises EvaluatorError."""
        self.prepare()
        self.start_prepared()

    def take(self) -> WorkerGroup:
        """A waiting group that is young and alive, else a new one; raises EvaluatorError."""
        while self._groups:
            group = self._groups.pop(0)
            if group.is_alive and time.monotonic() - group.started_at < self._age_s:
                return group
            group.close()
        return self._start()

    def start_new(self) -> WorkerGroup:
        """A group that never waited, and whose ranks start now; raises EvaluatorError."""
        group = self._start()
        group.start_ranks()
        return group

    @property
    def are_starting(self) -> bool:
        """Whether the ranks of one of them are starting."""
        return any(group.has_ranks and not group.is_ready for group in self._groups)

    def wait_until_ready(self, deadlines: Deadlines = NO_DEADLINES) -> None:
        """Return once all groups with started ranks are ready; a group that fails is ended."""
        for group in [group for group in self._groups if group.has_ranks]:
            group.deadlines = deadlines
            try:
                group.wait_until_ready()
            except EvaluatorError as error:
                logger.warning("a waiting worker group failed and is ended: %s", error)
                self._groups.remove(group)
                group.close()
            group.deadlines = NO_DEADLINES

    def close(self) -> None:
        """End all of them."""
        for group in self._groups:
            with contextlib.suppress(EvaluatorError):
                group.close()
        self._groups.clear()


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
