"""Worker groups that start before their submission comes, so that no evaluation waits for torch.

They start in two steps. Importing uses one processor for seconds, and may run during a measurement. Starting ranks uses
the GPUs, and waits until everything of the evaluation is timed and its own ranks are being ended.
"""

import contextlib
import logging
import time
from collections.abc import Callable

from evaluator.errors import EvaluatorError
from evaluator.host.process.deadlines import NO_DEADLINES, Deadlines
from evaluator.host.ranks.worker_group import WorkerGroup

logger = logging.getLogger(__name__)


class WaitingGroups:
    """Keeps up to `wanted` started groups, and replaces those older than `age_s` seconds.

    Args:
        start: starts a group; raises EvaluatorError.
        wanted: how many are to wait.
        age_s: how long one may wait.
    """

    def __init__(self, start: Callable[[], WorkerGroup], *, wanted: int, age_s: float) -> None:
        self._start = start
        self._wanted = wanted
        self._age_s = age_s
        self._groups: list[WorkerGroup] = []

    @property
    def groups(self) -> tuple[WorkerGroup, ...]:
        """Those that wait now, the oldest first."""
        return tuple(self._groups)

    @property
    def folders(self) -> set[str]:
        """The names of their private folders."""
        return {group.folder for group in self._groups}

    @property
    def processes(self) -> list[int]:
        """All their processes; none of them has seen a submission."""
        return [pid for group in self._groups for pid in group.processes]

    def prepare(self) -> None:
        """Let as many groups import as are wanted; raises EvaluatorError."""
        while len(self._groups) < self._wanted:
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
