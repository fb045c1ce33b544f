"""One build: what is built, where, how confined, and until when."""

import time
from dataclasses import dataclass
from pathlib import Path

from evaluator.contract import EvaluationRequest
from evaluator.errors import LimitExceeded
from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from evaluator.host.process import limited
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.settings import JudgeSettings


@dataclass(frozen=True, kw_only=True)
class BuildJob:
    """One build. Nothing in it changes, and every step may read it.

    Every step raises Cancelled where nobody wants the build any more.

    Attributes:
        request: whose source is built.
        settings: the slot's; its profile says for which architecture to build.
        workdir: a private folder; every step removes what it puts there.
        confinement: how its processes are confined.
        deadlines: of the evaluation that waits for it.
    """

    request: EvaluationRequest
    settings: JudgeSettings
    workdir: Path
    confinement: Confinement
    deadlines: Deadlines

    @property
    def profile(self) -> Profile:
        """The profile for which it is built."""
        return profiles.get(self.settings.profile)

    def refuse_late(self, doing: str) -> None:
        """Raise LimitExceeded after the evaluation's deadline: a reading that was cut short proves nothing."""
        if time.monotonic() >= self.deadlines.evaluation:
            raise LimitExceeded(f"the time of the evaluation was used up after {doing}")

    def read(self, function: str, text: str, *, seconds: float) -> str:
        """What `function`, named as `module:name`, reads from `text` in a process of its own.

        Raises LimitExceeded where that takes too long, or too much memory.
        """
        try:
            return limited.call(function, text, seconds=seconds, deadlines=self.deadlines)
        except LimitExceeded as exceeded:
            raise LimitExceeded(f"what was built could not be read: {exceeded}") from exceeded
