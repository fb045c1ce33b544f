"""One build: what is built, where, how confined, and until when."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evaluator.contract import EvaluationRequest
from evaluator.host.building.builder_process import BuildLimitExceeded
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.sandbox.bubblewrap import Confinement


@dataclass(frozen=True, kw_only=True)
class BuildJob:
    """One build. Nothing in it changes, and every step may read it.

    Attributes:
        request: whose source is built.
        workdir: a private folder; every step removes what it puts there.
        confinement: how its processes are confined.
        deadlines: of the evaluation that waits for it.
        cancelled: asked often; once true, the build ends.
    """

    request: EvaluationRequest
    workdir: Path
    confinement: Confinement
    deadlines: Deadlines
    cancelled: Callable[[], bool]

    def refuse_late(self, doing: str) -> None:
        """Raise BuildLimitExceeded after the evaluation's deadline: a reading that was cut short proves nothing."""
        if time.monotonic() >= self.deadlines.evaluation:
            raise BuildLimitExceeded(f"the time of the evaluation was used up after {doing}")
