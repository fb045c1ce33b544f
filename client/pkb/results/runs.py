"""Runs of models: their attempts, figures and events."""

from datetime import datetime

from ..errors import FieldError  # noqa: TID252 - the package is `pkb` once installed, and `client.pkb` here
from .result import Result


class Estimate(Result, frozen=True, kw_only=True):
    """A share of the problems with its interval, for k samples."""

    k: int
    value: float | None
    low: float | None
    high: float | None


class SpeedEstimate(Estimate, frozen=True, kw_only=True):
    """The share solved and faster than `p` times the reference."""

    p: float


class Bounds(Result, frozen=True, kw_only=True):
    """Between what correct@1 over all problems lies."""

    low: float
    high: float


class Figures(Result, frozen=True, kw_only=True):
    """What a run achieved."""

    problems: int
    attempted: int
    measured: int
    programs: int
    judged: int
    is_complete: bool
    solved: int
    faster: int
    correct_at_1: Estimate | None
    correct_at_k: Estimate | None
    bounds: Bounds
    fast: tuple[SpeedEstimate, ...]
    geomean_speedup: float | None
    score_rule: int | None = None
    verdicts: dict[str, int]
    pending: int = 0
    unranked: int = 0
    missing: int = 0
    cost_usd: float | None = None
    tokens: int | None = None


class Model(Result, frozen=True, kw_only=True):
    """A model in one version."""

    slug: str
    name: str
    version: str
    provider: str


class RunBrief(Result, frozen=True, kw_only=True):
    """A run as a list shows it."""

    id: str
    url: str
    page: str
    organisation: str
    model: Model
    mode: str
    backend: str
    profile: str
    k: int
    prompt_version: str
    cost_usd: float | None
    notes: str
    state: str
    verification: str
    is_quarantined: bool
    attempts: int
    pending: int
    created_at: datetime
    published_at: datetime | None
    recorded_on: str | None = None
    recorded_where: str = ""
    sampling: dict[str, object] = {}


class Run(RunBrief, frozen=True, kw_only=True):
    """A run with its figures."""

    figures: Figures


class RunPage(Result, frozen=True, kw_only=True):
    """Some runs, the newest first."""

    results: tuple[RunBrief, ...]
    next: str | None


class Attempt(Result, frozen=True, kw_only=True):
    """A model's source for a problem in one sample and step, and its result."""

    id: int
    key: str
    problem: str
    sample: int
    step: int
    mode: str
    backend: str = ""
    state: str
    verdict: str | None
    message: str
    score: float | None
    score_low: float | None
    score_high: float | None
    score_rule: int | None = None
    submission_id: str | None
    evaluation_id: str | None

    @property
    def has_ended(self) -> bool:
        """Whether its result is known."""
        return self.state == "ended"


class AttemptPage(Result, frozen=True, kw_only=True):
    """Some attempts of a run."""

    results: tuple[Attempt, ...]
    next: str | None


class LineResult(Result, frozen=True, kw_only=True):
    """What became of one attempt of a bulk upload."""

    line: int
    key: str
    status: str
    attempt_id: int | None = None
    verdict: str | None = None
    errors: tuple[FieldError, ...] = ()


class BulkResult(Result, frozen=True, kw_only=True):
    """What became of a bulk upload."""

    received: int
    created: int
    repeated: int
    refused: int
    over_quota: int
    results: tuple[LineResult, ...]


class RunEvent(Result, frozen=True, kw_only=True):
    """Something that happened to a run."""

    id: int
    kind: str
    at: datetime
    key: str | None = None
    problem: str | None = None
    sample: int | None = None
    step: int | None = None
    verdict: str | None = None
    message: str | None = None
    score: float | None = None


class EventPage(Result, frozen=True, kw_only=True):
    """What has happened after a cursor."""

    events: tuple[RunEvent, ...]
    next: int
    pending: int
    total: int
    poll_after_s: int | None
