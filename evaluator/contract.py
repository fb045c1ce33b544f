"""What crosses the boundary between the site and a judge: requests, progress, reports, node status.

Everything here is frozen, typed and JSON both ways; decoding refuses unknown fields and wrong types. The module
imports no other part of the evaluator, so the site can read it without torch.
"""

import hashlib
from enum import StrEnum
from typing import Self

import msgspec

SCHEMA_VERSION = 1


class ContractError(ValueError):
    """A message is not what the contract says; the text names the field."""


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen record that can be written as JSON and read back."""

    def to_json(self) -> str:
        """This record as JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The record that `text` holds.

        Raises:
            ContractError: the text is not JSON, lacks a field, has one too many or one of the wrong type.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise ContractError(f"{cls.__name__}: {error}") from error


class Backend(StrEnum):
    """What a submission is written in."""

    PYTORCH = "pytorch"
    CUDA = "cuda"
    TRITON = "triton"
    PARALLELKITTENS = "parallelkittens"
    NVSHMEM = "nvshmem"
    NCCL_DEVICE = "nccl_device"


class Mode(StrEnum):
    """How much of the judging an evaluation does, and whether it counts."""

    CHECK = "check"
    BENCHMARK = "benchmark"
    RANKED = "ranked"

    @property
    def is_timed(self) -> bool:
        """Whether the submission is timed against the reference."""
        return self is not Mode.CHECK


class Verdict(StrEnum):
    """The one-word outcome of an evaluation (docs/judge.md explains each)."""

    PASSED = "PASSED"
    WRONG_RESULT = "WRONG_RESULT"
    WRONG_SHAPE = "WRONG_SHAPE"
    NOT_FINITE = "NOT_FINITE"
    INPUT_MUTATED = "INPUT_MUTATED"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    COMPILE_ERROR = "COMPILE_ERROR"
    IMPORT_ERROR = "IMPORT_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    CRASHED = "CRASHED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    DEADLOCK = "DEADLOCK"
    TIMEOUT = "TIMEOUT"
    EARLY_EXIT = "EARLY_EXIT"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    FORBIDDEN = "FORBIDDEN"
    STALE_OUTPUT = "STALE_OUTPUT"
    INCOMPLETE_OUTPUT = "INCOMPLETE_OUTPUT"
    TIMING_INCONSISTENT = "TIMING_INCONSISTENT"
    BELOW_FLOOR = "BELOW_FLOOR"
    TRAFFIC_BELOW_MINIMUM = "TRAFFIC_BELOW_MINIMUM"
    TAMPERED = "TAMPERED"
    UNSUPPORTED = "UNSUPPORTED"
    BASELINE_UNSTABLE = "BASELINE_UNSTABLE"
    JUDGE_FAILURE = "JUDGE_FAILURE"


class Stage(StrEnum):
    """What a judge is doing for an evaluation, in order."""

    PREPARING = "preparing"
    BUILDING = "building"
    STARTING = "starting"
    VERIFYING = "verifying"
    TIMING = "timing"
    COMPARING = "comparing"
    REPORTING = "reporting"


class SandboxLevel(StrEnum):
    """How well the ranks that ran the submission were confined."""

    FULL = "full"
    REDUCED = "reduced"
    NONE = "none"

    def is_at_least(self, other: "SandboxLevel") -> bool:
        """Whether everything that `other` promises holds."""
        strongest_first = list(SandboxLevel)
        return strongest_first.index(self) <= strongest_first.index(other)


class SlotKind(StrEnum):
    """How contents reached the submission's ranks."""

    HOST_MEMORY = "host_memory"
    DEVICE_MEMORY = "device_memory"


class Primitive(StrEnum):
    """A hardware path by which data moves between GPUs."""

    COPY_ENGINE = "copy_engine"
    SM_LOAD_STORE = "sm_load_store"
    TMA = "tma"
    NVLS = "nvls"
    NVSHMEM = "nvshmem"
    NCCL = "nccl"
    NCCL_DEVICE = "nccl_device"


class Witness(StrEnum):
    """What showed a primitive: the text, the machine code of a built extension, or records of a run."""

    SOURCE = "source"
    COMPILED = "compiled"
    PROFILER = "profiler"


class Sighting(Message, frozen=True, kw_only=True):
    """One primitive that a submission uses, with its evidence: `detail` quotes what was seen.

    `file` and `line` lead into the source; for machine code `file` is the module and `line` None.
    """

    primitive: Primitive
    witness: Witness
    detail: str
    file: str | None = None
    line: int | None = None


class CallKind(StrEnum):
    """What was special about a call; only plain calls are timed, and a submission is told none of it."""

    PLAIN = "plain"
    SKEWED = "skewed"
    NEAR = "near"
    REPEATED = "repeated"
    AUDITED = "audited"
    BURST = "burst"


class SourceFile(Message, frozen=True, kw_only=True):
    """One text file of a submission; `path` is relative, with forward slashes."""

    path: str
    text: str


class SourceBundle(Message, frozen=True, kw_only=True):
    """All files of a submission, `solution.py` among them, sorted by path."""

    files: tuple[SourceFile, ...]

    ENTRY = "solution.py"

    @property
    def digest(self) -> str:
        """SHA-256 over names and contents, in hexadecimal: the identity of the source."""
        digest = hashlib.sha256()
        for file in self.files:
            content = file.text.encode()
            digest.update(f"{file.path}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()

    @property
    def entry(self) -> str:
        """The text of `solution.py`; raises ContractError where there is none."""
        for file in self.files:
            if file.path == self.ENTRY:
                return file.text
        raise ContractError(f"the submission has no {self.ENTRY}")


class EarlierTry(Message, frozen=True, kw_only=True):
    """A try of an evaluation that ended through no fault of its author's, and why.

    `verdict` is None where no report came, as when a node was lost.
    """

    attempt: int
    verdict: Verdict | None = None
    reason: str


class EvaluationRequest(Message, frozen=True, kw_only=True):
    """Everything a judge needs to know about one evaluation.

    `sizes` empty means the sizes that the profile prescribes for the mode; `dtype` None means the card's. `earlier`
    holds the tries before this one.
    """

    evaluation_id: str
    problem: str
    revision: str
    source: SourceBundle
    backend: Backend
    profile: str
    mode: Mode
    sizes: tuple[str, ...] = ()
    dtype: str | None = None
    attempt: int = 1
    earlier: tuple[EarlierTry, ...] = ()


class StageTime(Message, frozen=True, kw_only=True):
    """How long one stage of a judgement took."""

    stage: Stage
    seconds: float


class ErrorPattern(StrEnum):
    """How the wrong elements of an output lie."""

    EVERYWHERE = "everywhere"
    ONE_SHARD = "one_shard"
    ROWS = "rows"
    COLUMNS = "columns"
    BLOCK = "block"
    SCATTERED = "scattered"


class ErrorMap(Message, frozen=True, kw_only=True):
    """Where in one rank's output the wrong elements lie.

    `counts` is a grid of at most 32 by 32 over the last two dimensions of `shape`, counts over the others added up.
    `shards` counts them in as many equal parts along `shard_dimension` as there are ranks (empty where no dimension
    divides so); `largest_at` is the index of the largest error, `sentence` the pattern in words.
    """

    shape: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]
    largest_at: tuple[int, ...]
    shard_dimension: int | None = None
    shards: tuple[int, ...] = ()
    pattern: ErrorPattern
    sentence: str


class Finding(Message, frozen=True, kw_only=True):
    """One verdict that the evidence supports, with where and why; a report lists all, the first decides."""

    verdict: Verdict
    message: str
    rank: int | None = None
    size: str | None = None
    output: str | None = None
    file: str | None = None
    line: int | None = None
    error_map: ErrorMap | None = None


class OutputCheck(Message, frozen=True, kw_only=True):
    """How one rank's output compared with the oracle's over the checked calls of one size.

    `max_error` is in units of the tolerance (1 is the limit); `rms_error` is relative to the reference's rms.
    `first_wrong` is the index of the first element beyond the tolerance.
    """

    rank: int
    output: str
    elements: int
    wrong_elements: int
    max_error: float
    rms_error: float
    first_wrong: tuple[int, ...] | None = None


class SizeResult(Message, frozen=True, kw_only=True):
    """What was run and compared at one size."""

    size: str
    dims: dict[str, int]
    calls: int
    checked_calls: int
    outputs: tuple[OutputCheck, ...] = ()


class TimeSummary(Message, frozen=True, kw_only=True):
    """Times of a series of calls in microseconds; each is the maximum over ranks."""

    median_us: float
    p10_us: float
    p90_us: float
    calls: int


class SizeTiming(Message, frozen=True, kw_only=True):
    """Candidate and reference side by side at one size.

    `ratios` holds one reference / candidate value per block A B B A; `floor_us` is None where no floor applies.
    `rank_medians_us` is the candidate's median per rank. `window_us` is the median of the host's window around a
    call, from the moment when contents became readable. `gap_us` is what lies between `GO`, the answer and the claim,
    and `band_us` how large that may be: the most that a forged claim could gain per call. `outside_us` and
    `outside_band_us` are the same of the whole window: the most that work done before `GO` could gain. `burst_us` is
    what a further call of a burst took, and `burst_band_us` how much that may be.
    """

    size: str
    candidate: TimeSummary
    baseline: TimeSummary
    ratios: tuple[float, ...]
    rank_medians_us: tuple[float, ...]
    floor_us: float | None = None
    window_us: float | None = None
    gap_us: float | None = None
    band_us: float | None = None
    outside_us: float | None = None
    outside_band_us: float | None = None
    burst_us: float | None = None
    burst_band_us: float | None = None


class Timing(Message, frozen=True, kw_only=True):
    """The score: median of the blocks' speedups, with the 3rd and 10th of 12 order statistics as interval."""

    score: float
    low: float
    high: float
    blocks: tuple[float, ...]
    sizes: tuple[SizeTiming, ...]

    def __post_init__(self) -> None:
        if not self.low <= self.score <= self.high:
            raise ValueError(f"the score {self.score} lies outside its interval {self.low} to {self.high}")


class Collective(Message, frozen=True, kw_only=True):
    """A collective (or send, or receive) as torch's flight recorder told it of one rank: a claim, for the diagnosis.

    `number` counts those of its group in the call from 1 (0: begun before the call; None: the recorder has forgotten),
    `sequence` all since the start; `ranks` are the group's and `tensors` what went in ("float[4, 8]").
    """

    operation: str
    ranks: tuple[int, ...] = ()
    number: int | None
    sequence: int
    tensors: str = ""
    is_done: bool


class RankState(Message, frozen=True, kw_only=True):
    """Where one sandbox rank was when the evaluation ended.

    `phase` is the last place reached in words ("in call 3 at size tiny, inside all_reduce"); `exit` is "running",
    "exit 0", "signal SIGSEGV", ...; `stack` is a Python traceback or stack dump; `log` the head and tail of what the
    rank printed, control characters removed. `collectives` are known of a rank in a hang: the unfinished ones, the
    oldest first, then the last finished one.
    """

    rank: int
    exit: str
    phase: str
    calls_done: int
    error: str | None = None
    stack: str | None = None
    log: str = ""
    collectives: tuple[Collective, ...] = ()


class BuildResult(Message, frozen=True, kw_only=True):
    """What the compiler said. `log` is complete up to its limit; `artefacts` maps file names to SHA-256."""

    succeeded: bool
    seconds: float
    cached: bool
    command: str = ""
    log: str = ""
    artefacts: dict[str, str] = {}


class CallRecord(Message, frozen=True, kw_only=True, array_like=True):
    """One call as the host saw it; written as an array, for there are hundreds. One entry per rank in the tuples.

    `content` numbers what was drawn for the call; with `near` only a few elements differ from that call's contents.
    `is_reused` says that they were written to the addresses of the call before. `window_ns` runs on the host's clock
    from the moment when contents became readable to the last answer, `answer_ns` from GO. `claimed_ns`, `settled_ns`
    and `fingerprints` are the ranks' claims. `max_error` is the worst of all ranks, in units of the tolerance, and
    `rms_error` likewise, relative to the reference's rms. `answers_ns` says when each rank answered, from GO on the
    host's clock. `digests` are of the outputs that were taken for a checked call: SHA-256 over the first MiB of each
    in turn, 16 hexadecimal digits.
    """

    number: int
    kind: CallKind
    content: int
    near: int | None
    is_reused: bool
    is_checked: bool
    delays_us: tuple[int, ...]
    window_ns: int
    answer_ns: int
    claimed_ns: tuple[int, ...]
    settled_ns: tuple[int, ...]
    fingerprints: tuple[str, ...]
    max_error: float | None
    rms_error: float | None = None
    answers_ns: tuple[int, ...] = ()
    digests: tuple[str, ...] = ()

    @property
    def longest_ns(self) -> int:
        """The time of the call: the slowest rank's."""
        return max(self.claimed_ns)


class ReferenceCall(Message, frozen=True, kw_only=True, array_like=True):
    """One call of the reference: the slowest rank's time, and how long the host waited for it.

    `window_ns` also holds the publishing and reading of the inputs where the ranks did as sandbox ranks do; it is None
    in reports from before that was measured.
    """

    longest_ns: int
    answer_ns: int
    window_ns: int | None = None


class Burst(Message, frozen=True, kw_only=True, array_like=True):
    """Calls of the submission one after the other, between one `GO` and one answer; no rank times them.

    `calls` is how many, on new contents each, lined up before each. `window_ns` runs on the host's clock from the
    moment when their contents became readable to the last answer, `answer_ns` from `GO`. `checked` has the number of
    the contents whose outputs were compared, for one of several. `answer_ns` is judged, `window_ns` is kept to be read.
    """

    calls: int
    window_ns: int
    answer_ns: int
    checked: tuple[int, ...] = ()


class WorkKind(StrEnum):
    """What an audited call did: kernels, copies and fills of the device, operators of torch.distributed."""

    KERNEL = "kernel"
    COPY = "copy"
    FILL = "fill"
    OPERATOR = "operator"


class AuditedWork(Message, frozen=True, kw_only=True):
    """All work of one name in the audited call: on the rank that did most of it, and on how many `ranks` it was seen.

    `us` is its time in all, `bytes` what was copied or filled in all (0 where that is not told).
    """

    kind: WorkKind
    name: str
    count: int
    us: float
    bytes: int = 0
    ranks: int = 1


class Audit(Message, frozen=True, kw_only=True):
    """What ran in one call that was not timed, as the profiler inside the ranks told it: a claim.

    The works that took longest come first; `dropped` more names are left out. `note` says why there are none.
    """

    size: str
    works: tuple[AuditedWork, ...] = ()
    dropped: int = 0
    note: str = ""


class Wire(Message, frozen=True, kw_only=True):
    """What the links carried in `calls` calls like any other, by the driver's counters: bytes per call of every rank.

    `least_bytes` is what the cost model demands of the busiest rank, one way. `flag` says what a person should look
    at; it is no verdict. `note` says why nothing was read.
    """

    calls: int = 0
    sent_bytes: tuple[int, ...] = ()
    received_bytes: tuple[int, ...] = ()
    least_bytes: float = 0.0
    flag: str = ""
    note: str = ""


class GpuReading(Message, frozen=True, kw_only=True):
    """One GPU as the driver's management library describes it at a moment of a timed series.

    `throttled_by` holds the driver's reasons for clocks below what was asked for, in NVML's words; "sw_power_cap" and
    "gpu_idle" are everyday ones.
    """

    gpu: int
    moment: str
    sm_mhz: int
    memory_mhz: int
    watts: float
    celsius: int
    throttled_by: tuple[str, ...] = ()


class Canary(Message, frozen=True, kw_only=True):
    """The oracle ranks calculated, copied and communicated whole numbers: `failures` says what was not exact."""

    at: str
    is_full: bool
    failures: tuple[str, ...] = ()


class DriverFault(Message, frozen=True, kw_only=True):
    """A fault that the driver reported on a GPU during an evaluation: its Xid number, and how often it came.

    `gpu` is the minor number; `noticed_at` is when the host first saw it, at the latest after the ranks had ended.
    """

    gpu: int
    xid: int
    count: int = 1
    noticed_at: str = ""


class SizeRecord(Message, frozen=True, kw_only=True):
    """Every call at one size. `blocks` holds the timed calls' numbers and `reference` the reference's, block by block.

    `payload_bytes` is what a rank takes in and gives back per call. Over `watched_ns` of the reference's legs the
    submission's processes used `busy_ns` of processor time. `gang` counts the groups of ranks that ran the submission,
    each in a sandbox of its own. `wire` is None where the links were not looked at. `gpus` was read before the first
    block and after the last one, of either part where a series was run in two; `processes` is how many the sandbox then
    had. Where `is_primed`, the reference met every contents once before it was timed on them. `kept_gaps_ns` are from
    calls of the reference between the timed ones in which the ranks also did what oracle and sandbox ranks do around a
    call: how much later than their claimed end the host heard of them. `kept_windows_ns` are the same calls' times on
    the host's clock from the moment when contents became readable, less the claim. `bursts` were run between the
    blocks.
    """

    size: str
    payload_bytes: int
    floor_us: float | None
    calls: tuple[CallRecord, ...]
    blocks: tuple[tuple[int, ...], ...] = ()
    reference: tuple[tuple[ReferenceCall, ...], ...] = ()
    watched_ns: int = 0
    busy_ns: int = 0
    gang: int = 1
    wire: Wire | None = None
    gpus: tuple[GpuReading, ...] = ()
    processes: int = 0
    is_primed: bool = False
    kept_gaps_ns: tuple[int, ...] = ()
    kept_windows_ns: tuple[int, ...] = ()
    bursts: tuple[Burst, ...] = ()


class TimingRules(Message, frozen=True, kw_only=True):
    """When times count, as data of the profile.

    Attributes:
        band_us: how much longer than the reference's the time between claim and answer may be at the median.
        band_bytes_us: bytes of payload per microsecond that are allowed on top: they are copied and compared there.
        reading_us: how much longer than that the same may be where it begins with contents becoming readable.
        burst_ratio: how many times the claimed time a further call of a burst may take.
        burst_us: what it may take beyond that, and the claimed time once more; None: not judged.
        burst_most_us: the most that these two may be together.
        burst_bytes_us: bytes of payload per microsecond that are allowed on top: inputs are read and outputs stored.
        settle_ratio: largest ratio of the time until the device was idle to the time of the call; None: not judged.
        settle_jitter_us: what it may be longer in any case.
        baseline_drift: largest drift of the reference inside an evaluation; None: not judged.
        baseline_jitter_us: drift that is always allowed.
        by_block: whether claims and what is held against them are taken block by block, so that claims that are too
            short gain nothing unless they are half of a block's or more, in half of the blocks or more, which is
            refused; not so in reports from before.
        busy_cores: how many processors all ranks of a submission together may keep busy while the reference is timed;
            None: not judged.
    """

    band_us: float
    band_bytes_us: float
    settle_ratio: float | None
    settle_jitter_us: float
    baseline_drift: float | None
    baseline_jitter_us: float
    busy_cores: float | None = None
    reading_us: float = 0.0
    by_block: bool = False
    burst_us: float | None = None
    burst_most_us: float = 0.0
    burst_ratio: float = 1.0
    burst_bytes_us: float = 1.0


class Record(Message, frozen=True, kw_only=True):
    """The evidence behind the times: from it anyone can compute score, interval and verdict again."""

    rules: TimingRules
    sizes: tuple[SizeRecord, ...]


class EvaluationReport(Message, frozen=True, kw_only=True):
    """What the judge says of an evaluation. Append-only once recorded.

    `commitment` is the SHA-256 of the evaluation's secret. `environment` names judge, torch, driver, hardware and node
    in plain strings. `message` is the verdict in one sentence for the author. `warnings` is what would have spoken
    against the submission in ranked mode. `record` holds every call but those of bursts, which it counts. `canaries`
    are the last one before the evaluation, those of new oracle ranks, and the one after it. `driver_faults` is None
    where the node cannot tell. `earlier` are the tries of this evaluation before the one reported here.
    """

    schema_version: int = SCHEMA_VERSION
    evaluation_id: str
    problem: str
    revision: str
    source_digest: str
    backend: Backend
    profile: str
    world_size: int
    mode: Mode
    dtype: str
    verdict: Verdict
    message: str
    findings: tuple[Finding, ...] = ()
    stages: tuple[StageTime, ...] = ()
    sizes: tuple[SizeResult, ...] = ()
    timing: Timing | None = None
    record: Record | None = None
    warnings: tuple[Finding, ...] = ()
    ranks: tuple[RankState, ...] = ()
    build: BuildResult | None = None
    primitives: tuple[Sighting, ...] = ()
    audit: Audit | None = None
    canaries: tuple[Canary, ...] = ()
    driver_faults: tuple[DriverFault, ...] | None = None
    earlier: tuple[EarlierTry, ...] = ()
    sandbox: SandboxLevel = SandboxLevel.NONE
    slots: SlotKind = SlotKind.HOST_MEMORY
    commitment: str = ""
    environment: dict[str, str] = {}
    started_at: str = ""
    finished_at: str = ""

    def __post_init__(self) -> None:
        is_timed = self.timing is not None
        if is_timed and not (self.verdict is Verdict.PASSED and self.mode.is_timed):
            raise ValueError(f"timing is present with verdict {self.verdict} in mode {self.mode}")
        if self.verdict is Verdict.PASSED and self.mode.is_timed and not is_timed:
            raise ValueError("a passed evaluation in a timed mode carries its timing")


class Progress(Message, frozen=True, kw_only=True):
    """A sign of life from a judge: which stage, how far (0 to 1, None where unknown), in words."""

    evaluation_id: str
    lease: str
    stage: Stage
    detail: str = ""
    fraction: float | None = None


class Assignment(Message, frozen=True, kw_only=True):
    """What the dispatcher sends to a node: an evaluation for one slot, under a lease.

    `lease` is unguessable; whoever holds it may report on this evaluation and on nothing else.
    """

    lease: str
    slot: int
    request: EvaluationRequest


class Delivery(Message, frozen=True, kw_only=True):
    """What a node sends back when an evaluation has ended.

    `is_returned` gives work back that was not judged because the node was told to stop: that is nobody's failure, and
    costs the evaluation none of its tries.
    """

    lease: str
    node: str
    report: EvaluationReport
    is_returned: bool = False


class SlotState(StrEnum):
    """Whether a slot can take work."""

    STARTING = "starting"
    FREE = "free"
    BUSY = "busy"
    QUARANTINED = "quarantined"
    STOPPED = "stopped"


class SlotStatus(Message, frozen=True, kw_only=True):
    """One slot of a node as the node sees it."""

    index: int
    profile: str
    state: SlotState
    evaluation_id: str | None = None
    note: str = ""


class NodeStatus(Message, frozen=True, kw_only=True):
    """A node's heartbeat: who it is, what it offers and on what it runs.

    `key` is the node's secret as the operator was shown it; the site keeps only its hash. `revisions` maps the slugs
    of the problems installed there to their revisions.
    """

    node: str
    key: str
    slots: tuple[SlotStatus, ...]
    sandbox: SandboxLevel
    backends: tuple[Backend, ...]
    revisions: dict[str, str]
    environment: dict[str, str] = {}
    running: tuple[str, ...] = ()


PORTAL_QUEUE = "portal"
"""The queue on which the site hears from its nodes."""


def node_queue(node: str) -> str:
    """The queue on which the node called `node` receives its work."""
    return f"node.{node}"


class TaskName(StrEnum):
    """Celery tasks that cross between site and node, by the name both sides know; each takes one JSON text."""

    JUDGE = "node.judge"
    CANCEL = "node.cancel"
    RECORD_PROGRESS = "portal.record_progress"
    RECORD_DELIVERY = "portal.record_delivery"
    RECORD_NODE_STATUS = "portal.record_node_status"


class Cancellation(Message, frozen=True, kw_only=True):
    """The site asks a node to stop judging `evaluation_id`."""

    lease: str
    evaluation_id: str


class Baseline(Message, frozen=True, kw_only=True):
    """The reference's time of one problem at one size, in microseconds; each call counts as its slowest rank.

    `low_us` and `high_us` enclose the true median with 95 % probability. `utilisation` is floor over median; both it
    and the floor are None where the profile has no datasheet peaks. Where `is_primed`, the reference met every
    contents once before it was timed on them.
    """

    revision: str
    dims: dict[str, int]
    dtype: str
    calls: int
    median_us: float
    low_us: float
    high_us: float
    p10_us: float
    p90_us: float
    rank_medians_us: tuple[float, ...]
    floor_us: float | None = None
    bound: str | None = None
    utilisation: float | None = None
    is_primed: bool = False


class BaselineTable(Message, frozen=True, kw_only=True):
    """All baselines of a profile with where and when they were measured: slug to size to baseline."""

    profile: str
    measured_at: str
    environment: dict[str, str]
    baselines: dict[str, dict[str, Baseline]]
