"""Which stage an evaluation is in, and how long each one took."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evaluator.contract import Stage, StageTime

logger = logging.getLogger(__name__)


class StageTimes:
    """Reports every stage that is entered, and adds up its seconds."""

    def __init__(self, evaluation_id: str, *, progress: Callable[[Stage, str, float | None], None]) -> None:
        self._evaluation_id = evaluation_id
        self._progress = progress
        self._seconds: dict[Stage, float] = {}

    @contextmanager
    def enter(self, stage: Stage, detail: str, fraction: float | None = None) -> Iterator[None]:
        """Report `stage` with a description and the fraction done, and add the time inside to it."""
        self._progress(stage, detail, fraction)
        begun = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - begun
            self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds
            logger.debug("evaluation %s: %s, %s: %.2f s", self._evaluation_id, stage, detail, seconds)

    def all(self) -> tuple[StageTime, ...]:
        """The stages that were entered, in their order."""
        return tuple(StageTime(stage=stage, seconds=self._seconds[stage]) for stage in Stage if stage in self._seconds)
