"""What a judge says of an evaluation."""

from enum import StrEnum
from typing import Annotated, TypedDict

from msgspec import Meta

from evaluator.contract.base import (
    MOST_BLOCKS,
    MOST_ERROR_MAPS,
    MOST_POINTS,
    MOST_RANKS,
    MOST_SIZES,
    SCHEMA_VERSION,
    Amount,
    Count,
    Line,
    Log,
    Message,
    Name,
    Positive,
    Rank,
    Real,
    Sentence,
    Whole,
    WorldSize,
)
from evaluator.contract.code import Detection, MachineCode, RecordedWork
from evaluator.contract.findings import Finding, SizeResult, Verdict
from evaluator.contract.record import Record
from evaluator.contract.request import Backend, EarlierTry, EvaluationRequest, Mode
from evaluator.contract.timeline import Timeline


def is_faster(low: float | None, *, than: float = 1.0) -> bool:
    """Whether a speedup whose interval begins at `low` is significantly above `than`: its whole interval is.

    `than` = 1 is the reference. Boards, people, models, runs, agents, exports and the API all mean this by "faster".
    None, for a program that was not timed, is faster than nothing.
    """
    return low is not None and low > than


_WIDEST = 10.0


def is_informative(low: float | None, high: float | None) -> bool:
    """Whether a speedup's interval says anything: its ends are not more than tenfold apart.

    Two equal programs can differ by as much where calls take hardly longer than empty ones, as on a busy practice
    board. The record keeps such a score; pages and commands say that the times were too noisy to tell. True
    where no interval was kept. An interval that begins at 0 stands for none: nothing was timed.
    """
    return low is None or high is None or 0 < high <= _WIDEST * low


class TimeSummary(Message, frozen=True, kw_only=True):
    """Times of a series of calls in microseconds; each is the maximum over ranks."""

    median_us: Positive
    p10_us: Positive
    p90_us: Positive
    calls: Count


class SizeTiming(Message, frozen=True, kw_only=True):
    """Candidate and reference side by side at one size, in times less those of an empty call.

    `ratios` holds one reference / candidate value per block A B B A. `score` is their trimmed mean (of logarithms) and
    `low` to `high` its interval. `floor_us`
    is None where no floor applies. `rank_medians_us` is the candidate's median per rank. `empty_us` was taken off the
    reference's times and `candidate_empty_us` off the candidate's: what an empty call takes from its beginning to its
    end. Of that, `forgeable_us` grows with the bytes that are unsealed and fingerprinted: so much could a program gain
    that does both inside its own kernels. `claimed_us` is the time that ranks report themselves, a cross-check.
    `looped_us` and `baseline_looped_us` are calls back to back on unchanging inputs; they rank nothing.
    """

    size: Name
    candidate: TimeSummary
    baseline: TimeSummary
    ratios: Annotated[tuple[Positive, ...], Meta(max_length=MOST_BLOCKS)]
    rank_medians_us: Annotated[tuple[Positive, ...], Meta(max_length=MOST_RANKS)]
    score: Positive
    low: Positive
    high: Positive
    floor_us: Amount | None = None
    empty_us: Amount
    candidate_empty_us: Real
    forgeable_us: Amount
    claimed_us: Amount | None = None
    looped_us: Amount | None = None
    baseline_looped_us: Amount | None = None


class Timing(Message, frozen=True, kw_only=True):
    """The score: geometric mean over sizes of the speedup, and the interval that holds it with probability `coverage`.

    `blocks` are the speedups of the blocks that all sizes have, combined. `rule` says how calls became a score
    (`SCORE_RULE`); scores of different rules are not compared.
    """

    score: Positive
    low: Positive
    high: Positive
    blocks: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=MOST_BLOCKS)]
    sizes: Annotated[tuple[SizeTiming, ...], Meta(max_length=MOST_SIZES)]
    coverage: Annotated[float, Meta(gt=0, lt=1)] = 0.95
    rule: Annotated[int, Meta(ge=1, le=1000)]

    def __post_init__(self) -> None:
        if not self.low <= self.score <= self.high:
            raise ValueError(f"the score {self.score} lies outside its interval {self.low} to {self.high}")


class SweepPoint(Message, frozen=True, kw_only=True):
    """Reference and submission at one point of an axis, in times less those of an empty call. Never ranked.

    `size` names the point as in `base:M=512`: all other dimensions are those of that size. `value` is in the axis'
    unit. `speedup` is reference / submission, `low` to `high` its interval, as in ranked mode. Where the verdict is not
    PASSED, `message` says why, and times may lack. `submission` is None in a sweep of the reference alone. `floor_us`
    is None where no floor applies. `bus_bytes` over a time is the bus bandwidth (`evaluator.judging.bus_bandwidth`);
    None where the problem is no collective. `seconds` is what the point took to measure.
    """

    size: Name
    value: Count
    verdict: Verdict
    message: Sentence = ""
    reference: TimeSummary | None = None
    submission: TimeSummary | None = None
    speedup: Positive | None = None
    low: Positive | None = None
    high: Positive | None = None
    floor_us: Amount | None = None
    bus_bytes: Amount | None = None
    seconds: Amount = 0.0

    def __post_init__(self) -> None:
        lacks = {self.reference, self.speedup, self.low, self.high} if self.submission else {self.reference}
        if self.verdict is Verdict.PASSED and None in lacks:
            raise ValueError(f"point {self.size} passed without times")


PUBLISHED_WARM_CALLS, PUBLISHED_TIMED_CALLS = 500, 100
"""How many calls the published protocol makes before its clock runs, and while it does."""


class PublishedTime(Message, frozen=True, kw_only=True):
    """Reference and submission by the published protocol: calls back to back, one time per call. Never ranked.

    `warm_calls` of each came first, then `timed_calls`, over `groups` copies of one call's inputs. In a rank all copies
    together are `group_bytes`; `cache_bytes` is the device's L2 cache, 0 where it is unknown. Where the protocol's
    calls would have held the ranks too long there were fewer.
    """

    size: Name
    submission_us: Positive
    reference_us: Positive
    warm_calls: Count
    timed_calls: Count
    groups: Count
    group_bytes: Count
    cache_bytes: Count

    @property
    def speedup(self) -> float:
        """Reference over submission: a point, without an interval."""
        return self.reference_us / self.submission_us

    @property
    def lacks(self) -> str:
        """What the protocol asks for and was not done, in words; "" where nothing."""
        found = []
        if (self.warm_calls, self.timed_calls) != (PUBLISHED_WARM_CALLS, PUBLISHED_TIMED_CALLS):
            found.append(f"{self.warm_calls} + {self.timed_calls} calls instead of 500 + 100")
        if self.group_bytes <= self.cache_bytes:
            found.append(f"inputs of {self.group_bytes:,} bytes, within the {self.cache_bytes:,} of the L2 cache")
        return " and ".join(found)


_FEW, _MANY = Meta(max_length=16), Meta(max_length=512)


class Stage(StrEnum):
    """What a judge is doing for an evaluation, in order."""

    PREPARING = "preparing"
    BUILDING = "building"
    STARTING = "starting"
    VERIFYING = "verifying"
    TIMING = "timing"
    COMPARING = "comparing"
    REPORTING = "reporting"


class StageTime(Message, frozen=True, kw_only=True):
    """How long one stage of a judgement took."""

    stage: Stage
    seconds: Amount


class SandboxLevel(StrEnum):
    """How well the ranks that ran the submission were confined."""

    FULL = "full"
    REDUCED = "reduced"
    NONE = "none"

    def is_at_least(self, other: "SandboxLevel") -> bool:
        """Whether everything that `other` promises holds."""
        strongest_first = list(SandboxLevel)
        return strongest_first.index(self) <= strongest_first.index(other)


class BufferKind(StrEnum):
    """How inputs reached the submission's ranks."""

    HOST_MEMORY = "host_memory"
    DEVICE_MEMORY = "device_memory"


class Collective(Message, frozen=True, kw_only=True):
    """A collective (or send, or receive) as torch's flight recorder reported it on one rank; untrusted.

    `number` counts those of its group in the call from 1 (0: begun before the call; None: the recorder has forgotten).
    `sequence` counts all since the start. `ranks` are the group's, and `tensors` are what went in ("float[4, 8]").
    """

    operation: Name
    ranks: Annotated[tuple[Rank, ...], Meta(max_length=MOST_RANKS)] = ()
    number: Whole | None
    sequence: Whole
    tensors: Name = ""
    is_done: bool


class RankState(Message, frozen=True, kw_only=True):
    """Where one sandbox rank was when the evaluation ended.

    `phase` is the last location in words ("in call 3 at size tiny, inside all_reduce"). `exit` is "running", "exit 0",
    "signal SIGSEGV", ... `stack` is a Python traceback or stack dump. `log` is the head and tail of what the rank
    printed, without control characters. `collectives` are those of a rank that hung: the unfinished ones, the oldest
    first, then the last finished one. `file` and `line` are the submission's own innermost line where the rank raised,
    or ran; `is_waiting` says that it waits there for other ranks. `log_lacks` bytes are missing in the log's middle.
    """

    rank: Rank
    exit: Name
    phase: Sentence
    calls_done: Count
    error: Log | None = None
    stack: Log | None = None
    log: Log = ""
    collectives: Annotated[tuple[Collective, ...], Meta(max_length=16)] = ()
    file: Name | None = None
    line: Line | None = None
    is_waiting: bool = False
    log_lacks: Count = 0


class BuildResult(Message, frozen=True, kw_only=True):
    """The result of a build. `is_cut`: the log lacks its middle; `artefacts` maps file names to SHA-256."""

    succeeded: bool
    seconds: Amount
    cached: bool
    command: Sentence = ""
    log: Log = ""
    artefacts: Annotated[dict[Name, Name], Meta(max_length=1000)] = {}
    is_cut: bool = False


class Canary(Message, frozen=True, kw_only=True):
    """The oracle ranks computed, copied and communicated integers: `failures` says what was not exact."""

    at: Name
    is_full: bool
    failures: Annotated[tuple[Sentence, ...], _MANY] = ()


class DriverFault(Message, frozen=True, kw_only=True):
    """A fault that the driver reported on a GPU during an evaluation: its Xid number, and how often it came.

    `gpu` is the minor number; `noticed_at` is when the host first read it, at the latest after the ranks had ended.
    """

    gpu: Count
    xid: Count
    count: Count = 1
    noticed_at: Name = ""


class RequestFields(TypedDict):
    """The fields of a report that say what was asked for, and of which hardware."""

    evaluation_id: str
    problem: str
    revision: str
    source_digest: str
    backend: Backend
    profile: str
    world_size: int
    mode: Mode
    dtype: str


def request_fields(request: EvaluationRequest, *, world_size: int, dtype: str) -> RequestFields:
    """What every report on `request` repeats of it: `EvaluationReport(**request_fields(...), verdict=..., ...)`.

    `dtype` is that of the problem's inputs; "" where nobody has looked, and the request leaves it to the card.
    """
    return RequestFields(
        evaluation_id=request.evaluation_id,
        problem=request.problem,
        revision=request.revision,
        source_digest=request.source.digest,
        backend=request.backend,
        profile=request.profile,
        world_size=world_size,
        mode=request.mode,
        dtype=dtype,
    )


class EvaluationReport(Message, frozen=True, kw_only=True):
    """The judge's report of an evaluation. Append-only once recorded.

    Attributes:
        message: the verdict in one sentence for the author.
        warnings: what would have been findings in ranked mode.
        record: every call.
        recorded_work: the work in the recorded call, summed by name.
        timeline: the same call on every rank.
        machine_code: the submission's kernels with source lines, in mode profile.
        canaries: the last one before the evaluation, those of new oracle ranks, and the one after it.
        driver_faults: None where the node cannot know.
        alarms: sentences for a person to check; they do not change the verdict.
        notes: neutral sentences for the author, such as what was left out of the report.
        earlier: the tries of this evaluation before this one.
        buffers: how inputs reached the ranks.
        commitment: the SHA-256 of the evaluation's secret.
        ranks_wait_s: for how long everything waited for ranks to start, in seconds; None where none were taken.
        environment: judge, torch, driver, hardware and node in plain strings.
        world_sizes: the numbers of ranks on which it was correct, where more than one was tried.
        points: of a sweep, those that were measured in this try, whatever the verdict.
        published: times by the published protocol, in mode published alone.
        is_untimed: whether its profile times nothing in any mode, because all ranks share one GPU.
    """

    schema_version: Annotated[int, Meta(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    evaluation_id: Name
    problem: Name
    revision: Name
    source_digest: Name
    backend: Backend
    profile: Name
    world_size: WorldSize
    mode: Mode
    dtype: Name
    verdict: Verdict
    message: Sentence
    findings: Annotated[tuple[Finding, ...], _MANY] = ()
    stages: Annotated[tuple[StageTime, ...], Meta(max_length=len(Stage))] = ()
    sizes: Annotated[tuple[SizeResult, ...], Meta(max_length=MOST_SIZES)] = ()
    timing: Timing | None = None
    record: Record | None = None
    warnings: Annotated[tuple[Finding, ...], _MANY] = ()
    ranks: Annotated[tuple[RankState, ...], Meta(max_length=MOST_RANKS)] = ()
    build: BuildResult | None = None
    primitives: Annotated[tuple[Detection, ...], _MANY] = ()
    recorded_work: RecordedWork | None = None
    timeline: Timeline | None = None
    machine_code: MachineCode | None = None
    canaries: Annotated[tuple[Canary, ...], _FEW] = ()
    driver_faults: Annotated[tuple[DriverFault, ...], _MANY] | None = None
    alarms: Annotated[tuple[Sentence, ...], _MANY] = ()
    notes: Annotated[tuple[Sentence, ...], _MANY] = ()
    earlier: Annotated[tuple[EarlierTry, ...], _FEW] = ()
    sandbox: SandboxLevel = SandboxLevel.NONE
    buffers: BufferKind = BufferKind.HOST_MEMORY
    commitment: Name = ""
    ranks_wait_s: Amount | None = None
    environment: Annotated[dict[Name, Sentence], _MANY] = {}
    started_at: Name = ""
    finished_at: Name = ""
    world_sizes: Annotated[tuple[WorldSize, ...], Meta(max_length=8)] = ()
    points: Annotated[tuple[SweepPoint, ...], Meta(max_length=MOST_POINTS)] = ()
    published: PublishedTime | None = None
    is_untimed: bool = False

    def __post_init__(self) -> None:
        is_timed, times = self.timing is not None, self.mode.is_scored and not self.is_untimed
        if is_timed and not (self.verdict is Verdict.PASSED and times):
            raise ValueError(f"timing is present with verdict {self.verdict} in mode {self.mode}")
        if self.verdict is Verdict.PASSED and times and not is_timed:
            raise ValueError("a passed evaluation in a timed mode carries its timing")
        if self.points and self.mode is not Mode.SWEEP:
            raise ValueError(f"points of a sweep in mode {self.mode}")
        if self.published and self.mode is not Mode.PUBLISHED:
            raise ValueError(f"times by the published protocol in mode {self.mode}")
        if sum(finding.error_map is not None for finding in self.findings) > MOST_ERROR_MAPS:
            raise ValueError(f"a report has at most {MOST_ERROR_MAPS} error maps")
