"""Evaluations while they wait, run and have ended, and the submissions that they are of."""

from datetime import datetime

from .report import Report
from .result import Result
from .seasons import SeasonEntry


class VerdictFacts(Result, frozen=True, kw_only=True):
    """The explanation of a verdict: its name, what it means, what to try next."""

    title: str
    explanation: str
    advice: str


class Stage(Result, frozen=True, kw_only=True):
    """What the judge is doing."""

    name: str
    detail: str = ""
    fraction: float | None = None


class QueuePosition(Result, frozen=True, kw_only=True):
    """The queue position of an evaluation."""

    ahead: int
    total: int
    expected_wait_s: float | None
    is_paused: bool
    has_node: bool
    unable_since: str | None = None


class RankSplit(Result, frozen=True, kw_only=True):
    """How the time of one rank's recorded call is divided, in microseconds."""

    rank: int
    call_us: float
    compute_us: float
    wire_us: float
    both_us: float
    wait_us: float
    mixed_us: float
    idle_us: float


class Split(Result, frozen=True, kw_only=True):
    """How the time of a recorded call is divided, and the largest gap to the floor as advice in one sentence."""

    advice: str
    largest_gap: str
    gaps_us: dict[str, float] = {}
    usual_us: float | None = None
    ranks: tuple[RankSplit, ...] = ()


class Splits(Result, frozen=True, kw_only=True):
    """The recorded call of a submission, and that of the reference where it was recorded."""

    size: str
    trace_url: str
    submission: Split
    reference: Split | None = None


class EvaluationBrief(Result, frozen=True, kw_only=True):
    """One evaluation of a submission on a profile."""

    id: str
    url: str
    profile: str
    mode: str
    size: str = ""
    state: str
    verdict: str | None
    message: str
    score: float | None
    score_low: float | None
    score_high: float | None
    score_rule: int | None = None
    node_owner: str | None = None
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def has_ended(self) -> bool:
        """Whether it will not change any more."""
        return self.state in {"finished", "cancelled", "unserved"}

    @property
    def has_passed(self) -> bool:
        """Whether the verdict is PASSED."""
        return self.verdict == "PASSED"


class Evaluation(EvaluationBrief, frozen=True, kw_only=True):
    """An evaluation with its stage or queue position while it lasts, and its report afterwards."""

    node: str | None = None
    stage: Stage | None = None
    queue: QueuePosition | None = None
    poll_after_s: int | None = None
    facts: VerdictFacts | None = None
    report: Report | None = None
    split: Splits | None = None


class SubmissionBrief(Result, frozen=True, kw_only=True):
    """A submission as a list shows it."""

    id: str
    url: str
    author: str
    problem: str
    backend: str
    visibility: str
    note: str
    source_digest: str
    created_at: datetime
    evaluations: tuple[EvaluationBrief, ...]


class Submission(SubmissionBrief, frozen=True, kw_only=True):
    """A submission with its newest evaluation in full."""

    evaluation: Evaluation
    seasons: tuple[SeasonEntry, ...] = ()


class SubmissionPage(Result, frozen=True, kw_only=True):
    """Some of one's submissions, the newest first."""

    results: tuple[SubmissionBrief, ...]
    next: str | None
