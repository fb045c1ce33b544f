"""The site's responses, typed. Fields that a newer site adds are ignored, so an older client keeps working."""

from datetime import datetime

import msgspec

from .errors import FieldError


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the site."""


class Token(Result, frozen=True, kw_only=True):
    """The token of the call."""

    name: str
    prefix: str
    scopes: tuple[str, ...]
    expires_at: datetime


class Me(Result, frozen=True, kw_only=True):
    """Who is calling."""

    username: str
    queued: int
    queued_limit: int | None
    token: Token | None = None


class Price(Result, frozen=True, kw_only=True):
    """What one evaluation on a profile costs, in GPU-seconds."""

    gpus: int
    usual_gpu_s: float
    reserved_gpu_s: float
    at_most_gpu_s: float


class Forecast(Result, frozen=True, kw_only=True):
    """The cost of one more evaluation on a profile, and what is left for it; None if nothing limits it."""

    profile: str
    price: Price
    judgements: int | None
    remaining_gpu_s: float | None
    renews_at: datetime | None
    words: str


class ProblemBrief(Result, frozen=True, kw_only=True):
    """A problem as a list shows it."""

    number: int
    slug: str
    title: str
    summary: str
    block: str
    parallelism: tuple[str, ...]
    profiles: tuple[str, ...]
    revision: str
    is_open: bool
    url: str


class Problem(ProblemBrief, frozen=True, kw_only=True):
    """A problem with everything needed to solve it."""

    signature: str
    statement: str
    reference: str
    starters: dict[str, str]
    groups: str
    world_size_rule: str
    origin: str | None = None
    notes: tuple[str, ...] = ()


class Profile(Result, frozen=True, kw_only=True):
    """Hardware and world size together."""

    name: str
    title: str
    world_size: int
    backends: tuple[str, ...]
    sizes: dict[str, tuple[str, ...]]
    is_ranked_by_speed: bool
    slots_online: int


class Finding(Result, frozen=True, kw_only=True):
    """One verdict that the evidence supports, with where and why."""

    verdict: str
    message: str
    rank: int | None = None
    size: str | None = None
    output: str | None = None
    file: str | None = None
    line: int | None = None


class OutputCheck(Result, frozen=True, kw_only=True):
    """How one rank's output compared; `max_error` is in units of the tolerance.

    `extreme_elements` are beyond the limit and allowed: one in a million of a large output.
    """

    rank: int
    output: str
    elements: int
    wrong_elements: int
    max_error: float
    rms_error: float
    first_wrong: tuple[int, ...] | None = None
    extreme_elements: int = 0

    @property
    def is_right(self) -> bool:
        """Whether every compared element was correct."""
        return not self.wrong_elements and (self.max_error <= 1 or bool(self.extreme_elements))


class SizeMemory(Result, frozen=True, kw_only=True):
    """Memory of one GPU in bytes: all of it, and and the peak use of judge and submission."""

    total_bytes: int
    judge_bytes: int
    submission_bytes: int


class SizeResult(Result, frozen=True, kw_only=True):
    """What was run and compared at one size; `memory` is of GPUs only."""

    size: str
    calls: int
    checked_calls: int
    dims: dict[str, int] = {}
    outputs: tuple[OutputCheck, ...] = ()
    memory: SizeMemory | None = None


class TimeSummary(Result, frozen=True, kw_only=True):
    """Times of a series of calls in microseconds, the slowest rank counting."""

    median_us: float
    p10_us: float
    p90_us: float
    calls: int


class SizeTiming(Result, frozen=True, kw_only=True):
    """Submission (`candidate`) and reference (`baseline`) side by side at one size, by the judge's clock.

    Times are less what an empty call takes: `candidate_empty_us` and `empty_us`. A program that forges the work around
    a call could gain `forgeable_us` at most. `looped_us` and `baseline_looped_us` are calls back to back on unchanging
    inputs, as the published harness times them; they rank nothing. What was timed by rule 1 has none of these.
    """

    size: str
    candidate: TimeSummary
    baseline: TimeSummary
    ratios: tuple[float, ...] = ()
    score: float | None = None
    low: float | None = None
    high: float | None = None
    floor_us: float | None = None
    empty_us: float | None = None
    candidate_empty_us: float | None = None
    forgeable_us: float | None = None
    looped_us: float | None = None
    baseline_looped_us: float | None = None


_WIDEST = 10.0


def is_informative(low: float | None, high: float | None) -> bool:
    """Whether a speedup's interval says anything; otherwise times were too noisy. The site's pages mean the same."""
    return low is None or high is None or high <= _WIDEST * low


class Timing(Result, frozen=True, kw_only=True):
    """The speedup over the reference with its interval; scores of different rules are not comparable."""

    score: float
    low: float
    high: float
    rule: int = 1
    sizes: tuple[SizeTiming, ...] = ()


class RankState(Result, frozen=True, kw_only=True):
    """Where one rank was when the evaluation ended."""

    rank: int
    exit: str
    phase: str
    calls_done: int
    error: str | None = None
    stack: str | None = None
    log: str = ""


class BuildResult(Result, frozen=True, kw_only=True):
    """The compiler's output."""

    succeeded: bool
    seconds: float
    cached: bool
    command: str = ""
    log: str = ""


class Detection(Result, frozen=True, kw_only=True):
    """A hardware path that a submission uses, and the evidence for it."""

    primitive: str
    witness: str
    detail: str


class Report(Result, frozen=True, kw_only=True):
    """The judge's record of an evaluation."""

    verdict: str
    message: str
    profile: str
    world_size: int
    mode: str
    dtype: str
    findings: tuple[Finding, ...] = ()
    sizes: tuple[SizeResult, ...] = ()
    timing: Timing | None = None
    ranks: tuple[RankState, ...] = ()
    build: BuildResult | None = None
    primitives: tuple[Detection, ...] = ()
    environment: dict[str, str] = {}


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
    seasons: tuple["SeasonEntry", ...] = ()


class SeasonEntry(Result, frozen=True, kw_only=True):
    """What a submission is to a season; `message` says why it does not count."""

    season: str
    team: str
    counts: bool
    message: str
    page: str


class SeasonBrief(Result, frozen=True, kw_only=True):
    """A season as a list shows it; `example` is not empty for an example without competitors."""

    slug: str
    title: str
    profile: str
    problems: tuple[str, ...]
    opens_at: datetime
    closes_at: datetime
    phase: str
    seconds_left: float
    example: str
    page: str


class SeasonResult(Result, frozen=True, kw_only=True):
    """A team's best entry for a problem; `counts` goes into its score."""

    problem: str
    score: float
    score_low: float
    score_high: float
    counts: float
    is_rejudged: bool


class SeasonTeam(Result, frozen=True, kw_only=True):
    """A team's line of the standings."""

    place: int
    team: str
    members: tuple[str, ...]
    score: float
    solved: int
    results: tuple[SeasonResult, ...]


class Season(SeasonBrief, frozen=True, kw_only=True):
    """A season with its rules and standings."""

    rules: str
    is_ranked_by_speed: bool
    entries: int
    entries_pending: int
    standings: tuple[SeasonTeam, ...]


class SubmissionPage(Result, frozen=True, kw_only=True):
    """Some of one's submissions, the newest first."""

    results: tuple[SubmissionBrief, ...]
    next: str | None


class Prompt(Result, frozen=True, kw_only=True):
    """The task as a model is given it."""

    problem: str
    revision: str
    backend: str
    profile: str
    version: str
    digest: str
    text: str


class Estimate(Result, frozen=True, kw_only=True):
    """A share of the problems with its interval, for k samples."""

    k: int
    value: float | None
    low: float | None
    high: float | None


class SpeedEstimate(Estimate, frozen=True, kw_only=True):
    """The share solved and faster than `p` times the reference."""

    p: float


class Figures(Result, frozen=True, kw_only=True):
    """What a run achieved."""

    problems: int
    attempted: int
    supported: int
    solved: int
    faster: int
    correct_at_1: Estimate | None
    correct_at_k: Estimate | None
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


class Match(Result, frozen=True, kw_only=True):
    """A file of a solution tree and the problem that it was taken for."""

    path: str
    problem: str
    by: str
    note: str = ""
    backend: str = ""


class NoMatch(Result, frozen=True, kw_only=True):
    """A file of a solution tree that is for no problem here."""

    path: str
    reason: str


class TreeRun(Result, frozen=True, kw_only=True):
    """The run that a solution tree would become."""

    model: str
    version: str
    provider: str
    organisation: str | None = None
    backend: str
    profile: str
    notes: str


class ImportPreview(Result, frozen=True, kw_only=True):
    """What importing a solution tree would do; `lacking` names the fields that it still needs."""

    run: TreeRun
    backends: dict[str, int]
    matched: tuple[Match, ...]
    unmatched: tuple[NoMatch, ...]
    lacking: tuple[FieldError, ...]


class Import(Result, frozen=True, kw_only=True):
    """What became of a solution tree."""

    run: Run
    matched: tuple[Match, ...]
    unmatched: tuple[NoMatch, ...]
    bulk: BulkResult


class Organisation(Result, frozen=True, kw_only=True):
    """Whose models and runs they are."""

    slug: str
    name: str
    role: str
    members: tuple[str, ...] = ()


class Quota(Result, frozen=True, kw_only=True):
    """GPU-seconds of an organisation over a window of days."""

    organisation: str
    window_days: int
    limit_gpu_s: float | None
    used_gpu_s: float
    reserved_gpu_s: float
    remaining_gpu_s: float | None
    next_release_at: datetime | None = None
