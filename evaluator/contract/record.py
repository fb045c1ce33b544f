"""The evidence behind the times: every call, the blocks, the rules; and the reference's isolated times."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from evaluator.contract.base import (
    MOST_BLOCKS,
    MOST_RANKS,
    MOST_SIZES,
    Amount,
    Count,
    Message,
    Name,
    Positive,
    Real,
    Sentence,
    Whole,
)


class CallKind(StrEnum):
    """What was special about a call; only plain calls are timed, and a submission does not know the kind."""

    PLAIN = "plain"
    SKEWED = "skewed"
    NEAR = "near"
    REPEATED = "repeated"
    RECORDED = "audited"
    REGIME = "regime"
    LOOPED = "looped"


class ClockKind(StrEnum):
    """Where the time of a call begins and ends; the host's clock reads it, never a rank.

    GATE
        From the host's store that opens the gates of all GPUs to the last rank's fingerprint of its finished outputs.
    ANSWER
        From the message that hands the ranks their inputs to the last rank's answer (CPU ranks).
    """

    GATE = "gate"
    ANSWER = "answer"


_RANKS = Meta(max_length=MOST_RANKS)


class CallRecord(Message, frozen=True, kw_only=True, array_like=True):
    """One call as the host observed it; written as an array, for there are hundreds. One entry per rank in the tuples.

    `draw` numbers what was drawn for the call; with `near` only a few elements differ from the inputs of that draw.
    `is_reused` says that they were written to the addresses of the call before. `done_ns` is each rank's time on the
    host's clock (`ClockKind` says from where to where). `head_ns` is how long before that the ranks could queue work
    behind the closed gate. `has_queued` says whether all of them had queued everything by then. `claimed_ns` are times
    that the ranks report themselves, only a cross-check. `marks` are the fingerprints that arrived with the end of the
    call. `max_error` is the worst of all ranks, in units of the tolerance, and `rms_error` likewise, relative to the
    reference's rms. `digests` are of the outputs that were taken for a checked call: SHA-256 over the first MiB of each
    in turn, 16 hexadecimal digits. `regime` names how inputs differ from timed calls'.
    """

    number: Count
    kind: CallKind
    draw: Whole
    near: Whole | None
    is_reused: bool
    is_checked: bool
    delays_us: Annotated[tuple[Count, ...], _RANKS]
    done_ns: Annotated[tuple[Whole, ...], Meta(min_length=1, max_length=MOST_RANKS)]
    head_ns: Whole
    has_queued: bool
    claimed_ns: Annotated[tuple[Whole, ...], _RANKS]
    marks: Annotated[tuple[Name, ...], _RANKS]
    max_error: Amount | None
    rms_error: Amount | None = None
    digests: Annotated[tuple[Name, ...], _RANKS] = ()
    regime: Name = ""

    @property
    def time_ns(self) -> int:
        """The time of the call on the host's clock: the slowest rank's."""
        return max(self.done_ns)


class ReferenceCall(Message, frozen=True, kw_only=True, array_like=True):
    """One call of the reference, timed as a submission's: the slowest rank's time, and the self-reported time."""

    time_ns: Whole
    claimed_ns: Whole


class LinkTraffic(Message, frozen=True, kw_only=True):
    """Bytes on the links in `calls` ordinary calls, by the driver's counters: per call, of every rank.

    `least_bytes` is the cost model's minimum of the busiest rank, one way. `flag` says what a person should check; it
    is no verdict. `note` says why nothing was read.
    """

    calls: Count = 0
    sent_bytes: Annotated[tuple[Whole, ...], _RANKS] = ()
    received_bytes: Annotated[tuple[Whole, ...], _RANKS] = ()
    least_bytes: Amount = 0.0
    flag: Sentence = ""
    note: Sentence = ""


MOMENT_ALONE, MOMENT_REVEALING, MOMENT_PHASE = "alone", "revealing", "block"
"""Moments of a `GpuReading`. A phase of the reference adds the number of its block."""


class GpuReading(Message, frozen=True, kw_only=True):
    """One GPU as the driver's management library describes it at a moment.

    Attributes:
        gpu: its minor number.
        moment: "alone": the reference's calls before any rank could read the submission. "revealing": just before ranks
            may read it. "before" and "after": around the timed calls. "block 3": a phase of the reference in the third
            block.
        sm_mhz, memory_mhz, watts, celsius: clocks, power and temperature.
        throttled_by: the driver's reasons for clocks below what was asked for, in NVML's words; "sw_power_cap" and
            "gpu_idle" are normal.
        used_bytes: memory in use; None where it was not read, as for the fields below.
        processes: how many processes used the GPU, as far as the driver lists them.
        memory_percent: in which share of the driver's last sample period device memory was read or written.
        sent_bytes, received_bytes: payload on the GPU's links in a phase of the reference, per call.
        pcie_sent_bytes, pcie_received_bytes: the same over PCIe, where copies to and from the host go; a phase with
            more than 4 GiB counts less, because the driver's counters begin again.
        dram_percent: which share of its memory's bandwidth the GPU used in that phase; None for phases below 0.3 s.
    """

    gpu: Count
    moment: Name
    sm_mhz: Count
    memory_mhz: Count
    watts: Real
    celsius: Whole
    throttled_by: Annotated[tuple[Name, ...], Meta(max_length=16)] = ()
    used_bytes: Count | None = None
    processes: Count | None = None
    memory_percent: Count | None = None
    sent_bytes: Whole | None = None
    received_bytes: Whole | None = None
    pcie_sent_bytes: Whole | None = None
    pcie_received_bytes: Whole | None = None
    dram_percent: Count | None = None

    @property
    def precedes_submission(self) -> bool:
        """Whether no rank could read the submission yet."""
        return self.moment in (MOMENT_ALONE, MOMENT_REVEALING)

    @property
    def is_of_phase(self) -> bool:
        """Whether it was made in a phase of the reference in a timed series."""
        return self.moment.startswith(MOMENT_PHASE)


class SizeRecord(Message, frozen=True, kw_only=True):
    """Every call at one size. `blocks` holds the timed calls' numbers and `reference` the reference's, block by block.

    Attributes:
        size: which size.
        group_number: counts the worker groups that ran the submission, each in its own sandbox.
        payload_bytes: inputs and outputs of a rank per call.
        sealed_bytes, marked_bytes: the most that a rank unseals before a call and fingerprints after it.
        floor_us: no call takes less; None where no floor applies.
        calls: every call of the submission.
        blocks: the numbers of the timed ones, block by block.
        reference: the reference's calls of the same blocks.
        queues, reference_queues: whether the host opened the gate only when all work had been queued; otherwise about
            a millisecond after the call began. Fixed before the first block.
        empty_ns: empty calls at this size, in trusted ranks between the blocks: every time contains such a time.
        bare_ns, reference_bare_ns: bare calls (no bytes), by the sandbox ranks before they could read the submission,
            and by the reference ranks at that time. The difference: how much longer a call's overhead is in the former.
        reference_alone_ns: calls of the reference at this size before any rank could read the submission.
        looped_ns, reference_looped_ns: per call, back to back on unchanging inputs.
        watched_ns, busy_ns: the observed time of the reference's phases, and the processor time that the submission's
            processes used in it.
        gpus: read before the submission was handed over, in phases of the reference, and before and after the blocks.
        processes: how many the sandbox then had.
        is_primed: the reference met all inputs once before it was timed on them; only in reports of before 23 November
            2026 (decision 0052).
        links: None where the links' counters were not read.
    """

    size: Name
    payload_bytes: Count
    floor_us: Amount | None
    calls: tuple[CallRecord, ...]
    group_number: Count = 1
    sealed_bytes: Count = 0
    marked_bytes: Count = 0
    blocks: Annotated[tuple[tuple[Count, ...], ...], Meta(max_length=MOST_BLOCKS)] = ()
    reference: Annotated[tuple[tuple[ReferenceCall, ...], ...], Meta(max_length=MOST_BLOCKS)] = ()
    queues: bool = False
    reference_queues: bool = False
    empty_ns: tuple[Whole, ...] = ()
    bare_ns: tuple[Whole, ...] = ()
    reference_bare_ns: tuple[Whole, ...] = ()
    reference_alone_ns: tuple[Whole, ...] = ()
    looped_ns: Whole | None = None
    reference_looped_ns: Whole | None = None
    watched_ns: Count = 0
    busy_ns: Count = 0
    gpus: Annotated[tuple[GpuReading, ...], Meta(max_length=MOST_BLOCKS)] = ()
    processes: Count = 0
    is_primed: bool = False
    links: LinkTraffic | None = None


SCORE_RULE = 2
"""How scores come from calls: 1 took the ranks' own clocks, 2 takes the host's. Scores of two rules never compare."""


class TimingRules(Message, frozen=True, kw_only=True):
    """How times become a score, and when they count, as data of the profile.

    Attributes:
        clock: where a call's time begins and ends.
        resolution_us: smaller differences of times are not distinguished; a call counts as taking at least this.
        start_share, start_us: standard deviation of one side's time between starts of its ranks, as a share
            of the time and in microseconds; the larger counts. Measured; it is part of every interval.
        waiting_share: the same share for a side that waits for its device within a call, whose time contains host
            time.
        busy_cores: how many processors all ranks of a submission together may keep busy while the reference is timed;
            None: not judged.
        judges_throttling: whether an evaluation returns to the queue where heat or power limits slowed a GPU before
            the submission ran.
    """

    clock: ClockKind
    resolution_us: Positive
    start_share: Amount
    start_us: Amount
    waiting_share: Amount = 0.0
    busy_cores: Amount | None = None
    judges_throttling: bool = False


class Record(Message, frozen=True, kw_only=True):
    """The evidence behind the times: from it anyone can compute score, interval and verdict again."""

    rules: TimingRules
    sizes: Annotated[tuple[SizeRecord, ...], Meta(max_length=4 * MOST_SIZES)]


class Baseline(Message, frozen=True, kw_only=True):
    """The reference's time of one problem at one size, in microseconds; each call counts as its slowest rank.

    `low_us` and `high_us` enclose what many measurements come to, with 95 % probability; until 26 November 2026 they
    enclosed what more calls in the same one come to. `utilisation` is floor over median; both it and the floor are None
    where the profile has no datasheet peaks. `met_us` is the median of calls that all have the same inputs, so that
    libraries know every shape; None until 29 November 2026. Where `is_primed`, the reference met all inputs once before
    it was timed on them, as it did until 23 November 2026.
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
    met_us: float | None = None
    is_primed: bool = False


class BaselineTable(Message, frozen=True, kw_only=True):
    """All baselines of a profile with where and when they were measured: slug to size to baseline.

    `rule` says which clock they were measured by, as that of a score (`SCORE_RULE`).
    """

    profile: str
    measured_at: str
    environment: dict[str, str]
    baselines: dict[str, dict[str, Baseline]]
    rule: int
