"""What a simulated node judges with: a source says on its first line what its verdict is and how long that takes.

Nothing runs a kernel: sixteen nodes that judged on two processors would measure the judge. All else of a node is real:
its process, its conversation with the site, its slots, builders, leases and its outbox on disk (`evaluator.node`).
"""

import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from evaluator.contract import (
    SCORE_RULE,
    EvaluationReport,
    EvaluationRequest,
    SandboxLevel,
    SourceBundle,
    Stage,
    Timing,
    Verdict,
)
from evaluator.errors import Cancelled
from evaluator.host import JudgeSettings
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.node.slots import failure_report

MARK = "# prepared: "
_STEP_S = 0.02


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a source is judged to be: its verdict, the lower end of its score, and how long building and judging take.

    `trouble` is how often in a thousand a try fails on our side.
    """

    verdict: Verdict
    low: float = 1.0
    build_s: float = 0.0
    judge_s: float = 0.0
    trouble: int = 0


def source_of(outcome: Outcome, *, number: str) -> str:
    """A source of all-reduce that is judged as `outcome`, unlike any other's by `number`."""
    return f"{MARK}{msgspec.json.encode(outcome).decode()}\n# {number}\ndef solution(tensor):\n    return tensor\n"


def outcome_of(source: SourceBundle) -> Outcome:
    """What is written on the first line of the source."""
    return msgspec.json.decode(source.entry.partition("\n")[0].removeprefix(MARK), type=Outcome)


def report_of(request: EvaluationRequest, *, verdict: Verdict, low: float) -> EvaluationReport:
    """A report as the real judge writes them, without evidence."""
    timing = None
    if verdict is Verdict.PASSED and request.mode.is_scored:
        timing = Timing(score=low + 0.1, low=low, high=low + 0.2, blocks=(low + 0.1,) * 12, sizes=(), rule=SCORE_RULE)
    report = failure_report(request, f"prepared as {verdict}")
    return msgspec.structs.replace(report, verdict=verdict, timing=timing)


class PreparedJudge:
    """Replaces `evaluator.host.Judge`, behind the same methods."""

    settings = JudgeSettings(profile="cpux2")
    confinement = Confinement(level=SandboxLevel.FULL)
    quarantine = ""
    error_log = ""

    def evaluate(
        self, request: EvaluationRequest, *, progress: Callable[[Stage, str, float | None], None], cancelled: Any
    ) -> EvaluationReport:
        """Wait as long as the source says, report progress, and answer with its outcome."""
        outcome = outcome_of(request.source)
        for stage in (Stage.STARTING, Stage.VERIFYING, Stage.TIMING):
            progress(stage, "prepared", None)
            if not _waited(outcome.judge_s / 3, cancelled):
                raise Cancelled("it was cancelled")
        if random.Random(f"{request.evaluation_id} {request.attempt}").randrange(1000) < outcome.trouble:
            return failure_report(request, "prepared trouble of ours")
        return report_of(request, verdict=outcome.verdict, low=outcome.low)

    def close(self) -> None:
        """Nothing was started."""


class PreparedBuilds:
    """Replaces `evaluator.host.build_ahead.BuildAhead`."""

    def build(self, request: EvaluationRequest, *, cancelled: Callable[[], bool]) -> EvaluationReport | None:
        """Wait; a report where the compiler is to refuse the source."""
        outcome = outcome_of(request.source)
        if not _waited(outcome.build_s, cancelled):
            raise Cancelled
        if outcome.verdict is Verdict.COMPILE_ERROR:
            return report_of(request, verdict=outcome.verdict, low=0.0)
        return None

    def close(self) -> None:
        """Nothing was started."""


def _waited(seconds: float, cancelled: Callable[[], bool]) -> bool:
    """Whether the time went by before somebody cancelled."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if cancelled():
            return False
        time.sleep(_STEP_S)
    return not cancelled()
