"""The site's responses, typed. Fields that a newer site adds are ignored, so an older client keeps working.

Made from the OpenAPI document by tools/tables/client_types.py: do not edit.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct, field


class EvaluationBrief(Struct, frozen=True, kw_only=True):
    """One evaluation of a submission on a profile."""

    id: str
    url: str
    profile: str
    mode: str
    size: str
    state: str
    verdict: str | None
    message: str
    score: float | None
    score_low: float | None
    score_high: float | None
    score_rule: int | None
    recorded_on: str | None
    recorded_where: str
    node_owner: str | None
    problem_revision: str
    attempt: int
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class SeasonEntry(Struct, frozen=True, kw_only=True):
    """What a submission is to a season that its author takes part in."""

    season: str
    team: str
    evaluation: str
    counts: bool
    message: str
    page: str


class RankSplit(Struct, frozen=True, kw_only=True):
    """Where the time of one rank's recorded call went, in microseconds."""

    rank: int
    call_us: float
    compute_us: float
    wire_us: float
    both_us: float
    wait_us: float
    mixed_us: float
    idle_us: float
    overlap: float | None
    launches: int
    host_waits: int


class TimeSummary(Struct, frozen=True, kw_only=True):
    """Times of a series of calls in microseconds; each is the maximum over ranks."""

    median_us: float
    p10_us: float
    p90_us: float
    calls: int


class Detection(Struct, frozen=True, kw_only=True):
    """One primitive that a submission uses, with its evidence: `detail` quotes what was found."""

    primitive: str
    evidence: str
    detail: str
    file: str | None = None
    line: int | None = None


class BuildResult(Struct, frozen=True, kw_only=True):
    """The result of a build. `is_cut`: the log lacks its middle; `artefacts` maps file names to SHA-256."""

    succeeded: bool
    seconds: float
    cached: bool
    command: str = ""
    log: str = ""
    artefacts: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False


class Collective(Struct, frozen=True, kw_only=True):
    """A collective (or send, or receive) as torch's flight recorder reported it on one rank; untrusted."""

    operation: str
    number: int | None
    sequence: int
    is_done: bool
    ranks: list[int] = field(default_factory=list)
    tensors: str = ""


class SizeTiming(Struct, frozen=True, kw_only=True):
    """Candidate and reference side by side at one size, in times less those of an empty call."""

    size: str
    candidate: TimeSummary
    baseline: TimeSummary
    ratios: list[float]
    rank_medians_us: list[float]
    score: float
    low: float
    high: float
    empty_us: float
    candidate_empty_us: float
    forgeable_us: float
    floor_us: float | None = None
    claimed_us: float | None = None
    looped_us: float | None = None
    baseline_looped_us: float | None = None


class SizeMemory(Struct, frozen=True, kw_only=True):
    """Memory of one GPU in bytes: all of it, and the most that judge and submission used."""

    total_bytes: int
    judge_bytes: int
    submission_bytes: int


class OutputCheck(Struct, frozen=True, kw_only=True):
    """How one rank's output compared with the expected output, over the checked calls of one size."""

    rank: int
    output: str
    elements: int
    wrong_elements: int
    max_error: float
    rms_error: float
    first_wrong: list[int] | None = None
    extreme_elements: int = 0


class ErrorMap(Struct, frozen=True, kw_only=True):
    """Where the wrong elements of one rank's output are."""

    shape: list[int]
    counts: list[list[int]]
    largest_at: list[int]
    pattern: str
    sentence: str
    shard_dimension: int | None = None
    shards: list[int] = field(default_factory=list)


class VerdictFacts(Struct, frozen=True, kw_only=True):
    """Explanation and advice for a verdict, as on the pages."""

    title: str
    explanation: str
    advice: str


class QueuePosition(Struct, frozen=True, kw_only=True):
    """The queue position of an evaluation."""

    ahead: int
    total: int
    expected_wait_s: float | None
    is_paused: bool
    pause_reason: str
    has_node: bool
    unable_since: datetime | None


class Stage(Struct, frozen=True, kw_only=True):
    """What the judge is doing."""

    name: str
    detail: str
    fraction: float | None
    since: datetime | None


class Quarantine(Struct, frozen=True, kw_only=True):
    """Why an entry is on no board."""

    reason: str
    at: datetime


class SeasonBrief(Struct, frozen=True, kw_only=True):
    """A season as a list shows it."""

    slug: str
    url: str
    page: str
    title: str
    profile: str
    problems: list[str]
    opens_at: datetime
    closes_at: datetime
    announced_closes_at: datetime
    phase: str
    seconds_left: float


class SeasonResult(Struct, frozen=True, kw_only=True):
    """A team's best entry for a problem."""

    problem: str
    score: float | None
    score_low: float | None
    score_high: float | None
    counts: float
    is_rejudged: bool
    author: str
    entered_at: datetime
    submission: str | None


class Model(Struct, frozen=True, kw_only=True):
    """A model."""

    slug: str
    name: str
    version: str
    provider: str
    organisation: str
    page: str


class SpeedEstimate(Struct, frozen=True, kw_only=True):
    """fast_p@1 at one p."""

    k: int
    value: float
    low: float
    high: float
    p: float


class Bounds(Struct, frozen=True, kw_only=True):
    """Between what a figure over all problems lies, whatever the samples that are not measured turn out to be."""

    low: float
    high: float


class Estimate(Struct, frozen=True, kw_only=True):
    """A figure by the unbiased estimator over the measured problems, with its 95 % interval."""

    k: int
    value: float
    low: float
    high: float


class Quota(Struct, frozen=True, kw_only=True):
    """GPU-seconds in the last 30 days of the allowance that an organisation draws on."""

    organisation: str
    sponsor: str | None
    window_days: int
    limit_gpu_s: float
    used_gpu_s: float
    reserved_gpu_s: float
    remaining_gpu_s: float
    next_release_at: datetime | None


class Prompt(Struct, frozen=True, kw_only=True):
    """A task prompt."""

    problem: str
    revision: str
    backend: str
    profile: str
    version: str
    digest: str
    example: str
    text: str


class Peaks(Struct, frozen=True, kw_only=True):
    """Datasheet ceilings of one GPU."""

    bf16_flops: float
    fp8_flops: float
    fp32_flops: float
    fp64_flops: float
    memory_bytes_s: float
    wire_bytes_s: float
    source: str


class ProblemBrief(Struct, frozen=True, kw_only=True):
    """A problem as a list shows it."""

    number: int
    slug: str
    title: str
    summary: str
    parallelism: list[str]
    communication: list[str]
    block: str
    stage: list[str]
    domain: str
    world_size_rule: str
    profiles: list[str]
    revision: str
    is_open: bool
    url: str


class Axis(Struct, frozen=True, kw_only=True):
    """What mode sweep varies."""

    name: str
    symbol: str
    unit: str
    fixed: str
    values: dict[str, list[int]]


class Cost(Struct, frozen=True, kw_only=True):
    """What one call costs each rank at the least, at two bytes per element (bfloat16)."""

    flops: dict[str, float]
    memory_bytes: float
    wire_bytes: float
    reference_wire_bytes: float
    note: str


class Regime(Struct, frozen=True, kw_only=True):
    """Legal inputs other than usual ones, which checks draw alone and together with others."""

    name: str
    described: str


class Tolerance(Struct, frozen=True, kw_only=True):
    """An element is correct when |x - ref| <= atol * rms(ref) + rtol * |ref|."""

    atol: float
    rtol: float
    rms: float | None
    scope: str
    is_exact: bool


class Argument(Struct, frozen=True, kw_only=True):
    """One parameter of `solution`."""

    name: str
    kind: str
    count: str | None
    shape: list[str]
    dtype: str
    values: str
    replicated: bool
    mutable: bool


class Organisation(Struct, frozen=True, kw_only=True):
    """An organisation of the caller's."""

    slug: str
    name: str
    role: str
    members: list[str]
    owners: list[str]
    sponsor: str | None


class Token(Struct, frozen=True, kw_only=True):
    """The token of this call; its secret is kept nowhere."""

    name: str
    prefix: str
    scopes: list[str]
    expires_at: datetime


class FieldError(Struct, frozen=True, kw_only=True):
    """One input at fault."""

    field: str
    value: str
    message: str
    remedy: str
    verdict: str = ""


class NoMatch(Struct, frozen=True, kw_only=True):
    """A file of a tree that became no attempt."""

    path: str
    reason: str


class Match(Struct, frozen=True, kw_only=True):
    """A file of a tree and its problem."""

    path: str
    problem: str
    by: str
    note: str
    backend: str


class TreeRun(Struct, frozen=True, kw_only=True):
    """The run that a tree would become; empty where nothing says it."""

    model: str
    version: str
    provider: str
    organisation: str | None
    backend: str
    profile: str
    notes: str


class LineResult(Struct, frozen=True, kw_only=True):
    """What became of one line of an upload."""

    line: int
    key: str
    status: str
    attempt_id: int | None
    verdict: str | None
    errors: list[FieldError]


class Limit(Struct, frozen=True, kw_only=True):
    """One limit, with use and remainder."""

    profile: str
    limit_gpu_s: float | None
    used_gpu_s: float
    reserved_gpu_s: float
    remaining_gpu_s: float | None
    next_release_at: datetime | None
    queued: int
    queued_at_most: int | None
    new_until: datetime | None
    reason: str


class Price(Struct, frozen=True, kw_only=True):
    """What one evaluation on a profile costs, in GPU-seconds: seconds of judging times GPUs."""

    gpus: int
    usual_gpu_s: float
    reserved_gpu_s: float
    at_most_gpu_s: float


class RunEvent(Struct, frozen=True, kw_only=True):
    """Something that happened to a run. `score_low` and `score_high` are null once the attempt was judged again."""

    id: int
    kind: str
    at: datetime
    attempt_id: int | None
    key: str | None
    problem: str | None
    sample: int | None
    step: int | None
    verdict: str | None
    message: str
    score: float | None
    score_low: float | None
    score_high: float | None


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt and its result."""

    id: int
    key: str
    problem: str
    sample: int
    step: int
    mode: str
    backend: str
    state: str
    verdict: str | None
    message: str
    score: float | None
    score_low: float | None
    score_high: float | None
    score_rule: int | None
    submission: str | None
    submission_id: str | None
    evaluation_id: str | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    seconds: float | None
    has_trajectory: bool
    created_at: datetime
    ended_at: datetime | None


class SubmissionBrief(Struct, frozen=True, kw_only=True):
    """A submission as a list shows it."""

    id: str
    url: str
    author: str
    problem: str
    backend: str
    visibility: str
    note: str
    notes: str
    built_on: str | None
    source_digest: str
    created_at: datetime
    evaluations: list[EvaluationBrief]


class Split(Struct, frozen=True, kw_only=True):
    """How the time of a recorded call is divided. It is self-reported by the ranks, so it affects no score."""

    advice: str
    largest_gap: str
    gaps_us: dict[str, float]
    accounted: float
    uncertainty_us: float
    gates_apart_us: float | None
    usual_us: float | None
    wire_bytes_s: float | None
    flops_s: float | None
    ranks: list[RankSplit]


class SweepPoint(Struct, frozen=True, kw_only=True):
    """Reference and submission at one point of an axis, in times less those of an empty call. Never ranked."""

    size: str
    value: int
    verdict: str
    message: str = ""
    reference: TimeSummary | None = None
    submission: TimeSummary | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    floor_us: float | None = None
    bus_bytes: float | None = None
    seconds: float = 0.0


class RankState(Struct, frozen=True, kw_only=True):
    """Where one sandbox rank was when the evaluation ended."""

    rank: int
    exit: str
    phase: str
    calls_done: int
    error: str | None = None
    stack: str | None = None
    log: str = ""
    collectives: list[Collective] = field(default_factory=list)
    file: str | None = None
    line: int | None = None
    is_waiting: bool = False
    log_lacks: int = 0


class Timing(Struct, frozen=True, kw_only=True):
    """The score: geometric mean over sizes of the speedup, and the interval that holds it with probability `coverage`."""

    score: float
    low: float
    high: float
    blocks: list[float]
    sizes: list[SizeTiming]
    rule: int
    coverage: float = 0.95


class SizeResult(Struct, frozen=True, kw_only=True):
    """What was run and compared at one size; `memory` is of GPUs only."""

    size: str
    dims: dict[str, int]
    calls: int
    checked_calls: int
    outputs: list[OutputCheck] = field(default_factory=list)
    memory: SizeMemory | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """One verdict that the evidence supports, with where and why; a report lists all, the first decides."""

    verdict: str
    message: str
    rank: int | None = None
    size: str | None = None
    output: str | None = None
    file: str | None = None
    line: int | None = None
    error_map: ErrorMap | None = None


class SubmissionBriefPage(Struct, frozen=True, kw_only=True):
    """A page."""

    next: str | None
    previous: str | None
    results: list[SubmissionBrief]


class SeasonTeam(Struct, frozen=True, kw_only=True):
    """A team's line."""

    place: int
    team: str
    organisation: str | None
    members: list[str]
    score: float
    solved: int
    results: list[SeasonResult]


class RunBrief(Struct, frozen=True, kw_only=True):
    """A run as a list shows it. Takes the counts from its annotations."""

    id: str
    url: str
    page: str
    organisation: str
    model: Model
    mode: str
    backend: str
    profile: str
    k: int
    sampling: dict[str, Any]
    prompt_version: str
    cost_usd: float | None
    notes: str
    state: str
    verification: str
    is_quarantined: bool
    recorded_on: str | None
    recorded_where: str
    created_at: datetime
    published_at: datetime | None
    attempts: int
    pending: int


class Figures(Struct, frozen=True, kw_only=True):
    """A run's figures over all problems."""

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
    best_of_k: Estimate | None
    bounds: Bounds
    fast: list[SpeedEstimate]
    fast_by_point: list[SpeedEstimate]
    published_classes: dict[str, int]
    geomean_speedup: float | None
    score_rule: int
    verdicts: dict[str, int]
    pending: int
    unranked: int
    missing: int
    primitives: dict[str, int]
    cost_usd: float | None
    tokens: int | None


class RunBriefPage(Struct, frozen=True, kw_only=True):
    """A page."""

    next: str | None
    previous: str | None
    results: list[RunBrief]


class Profile(Struct, frozen=True, kw_only=True):
    """Hardware and world size together."""

    name: str
    title: str
    device: str
    gpu: str | None
    world_size: int
    process_group: str
    backends: list[str]
    sizes: dict[str, list[str]]
    is_ranked_by_speed: bool
    sandbox: str
    multicast: bool
    peaks: Peaks | None
    slots_online: int


class Size(Struct, frozen=True, kw_only=True):
    """One size at one world size."""

    name: str
    world_size: int
    system: str
    dims: dict[str, int]
    cost: Cost


class Output(Struct, frozen=True, kw_only=True):
    """One tensor that `solution` returns or writes."""

    name: str
    shape: list[str]
    dtype: str
    placement: str
    sharding: str
    argument: str | None
    layout: str
    is_list: bool
    tolerance: Tolerance


class Me(Struct, frozen=True, kw_only=True):
    """Who is calling, by which token, and what of the queue is theirs."""

    username: str
    token: Token | None
    queued: int
    queued_limit: int | None


class ImportPreview(Struct, frozen=True, kw_only=True):
    """What an import would do."""

    run: TreeRun
    backends: dict[str, int]
    matched: list[Match]
    unmatched: list[NoMatch]
    lacking: list[FieldError]


class BulkResult(Struct, frozen=True, kw_only=True):
    """What became of an upload."""

    received: int
    created: int
    repeated: int
    refused: int
    over_quota: int
    results: list[LineResult]


class Forecast(Struct, frozen=True, kw_only=True):
    """The cost of one more evaluation on a profile, and what is left of the allowance."""

    profile: str
    price: Price
    judgements: int | None
    remaining_gpu_s: float | None
    renews_at: datetime | None
    words: str
    allowances: list[Limit]


class EventPage(Struct, frozen=True, kw_only=True):
    """What has happened after a cursor."""

    events: list[RunEvent]
    next: int
    pending: int
    total: int
    poll_after_s: int | None


class AttemptPage(Struct, frozen=True, kw_only=True):
    """A page."""

    next: str | None
    previous: str | None
    results: list[Attempt]


class Splits(Struct, frozen=True, kw_only=True):
    """The recorded call of the submission, and that of the reference where it was recorded."""

    size: str
    trace_url: str
    submission: Split
    reference: Split | None


class Report(Struct, frozen=True, kw_only=True):
    """The judge's report of an evaluation. Append-only once recorded."""

    verdict: str
    message: str
    profile: str
    world_size: int
    mode: str
    dtype: str
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sizes: list[SizeResult] = field(default_factory=list)
    timing: Timing | None = None
    points: list[SweepPoint] = field(default_factory=list)
    ranks: list[RankState] = field(default_factory=list)
    build: BuildResult | None = None
    primitives: list[Detection] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


class Season(SeasonBrief, frozen=True, kw_only=True):
    """A season with rules and standings."""

    rules: str
    is_ranked_by_speed: bool
    rejudged_per_problem: int
    largest_team: int
    opened_sources: str
    sources_read_by: str
    organisation: str | None
    access: str
    counts: str
    hides_board: bool
    owners_read: bool
    code: str | None
    final_at: datetime | None
    changed_problems: list[str]
    entries: int
    entries_pending: int
    standings: list[SeasonTeam]


class Run(RunBrief, frozen=True, kw_only=True):
    """A run with its figures."""

    figures: Figures


class Problem(ProblemBrief, frozen=True, kw_only=True):
    """A problem with everything needed to solve it."""

    origin: str | None
    signature: str
    arguments: list[Argument]
    outputs: list[Output]
    groups: str
    invariants: list[str]
    regimes: list[Regime]
    sizes: list[Size]
    axes: list[Axis]
    notes: list[str]
    statement: str
    reference: str
    starters: dict[str, str]


class Import(Struct, frozen=True, kw_only=True):
    """What became of a tree of solutions."""

    run: Run
    matched: list[Match]
    unmatched: list[NoMatch]
    bulk: BulkResult


class Evaluation(EvaluationBrief, frozen=True, kw_only=True):
    """An evaluation with its stage or queue position while it lasts, then its report."""

    node: str | None
    stage: Stage | None
    queue: QueuePosition | None
    poll_after_s: int | None
    facts: VerdictFacts | None
    report: Report | None
    points: list[SweepPoint]
    split: Splits | None


class Submission(SubmissionBrief, frozen=True, kw_only=True):
    """A submission with its newest evaluation in full."""

    quarantine: Quarantine | None
    evaluation: Evaluation
    seasons: list[SeasonEntry]
