"""The evidence behind the times: every call, the blocks, the rules; and the reference's times alone."""

from enum import StrEnum

from evaluator.contract.message import Message


class CallKind(StrEnum):
    """What was special about a call; only plain calls are timed, and a submission is told none of it."""

    PLAIN = "plain"
    SKEWED = "skewed"
    NEAR = "near"
    REPEATED = "repeated"
    AUDITED = "audited"
    BURST = "burst"


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
