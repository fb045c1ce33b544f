"""What a recorded call is made of: compute, wire, waits, and own kernels that may access peers; rank by rank."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evaluator.contract import CallTimeline, Primitive, RankTimeline, Span, SpanKind

Interval = tuple[int, int]

_WIRE_KERNEL = re.compile(r"\bnccl(?:Symk?)?(?:Dev)?Kernel|nvshmem|\bc10d::symmetric_memory::", re.IGNORECASE)
_PEER_COPY = re.compile(r"PtoP|Peer")
_LIBRARY_KERNEL = re.compile(
    r"\bat::|\bc10::|cutlass|cublas|cudnn|nvjet|\bsm\d\d_|ampere_|hopper_|cub::|thrust::|flash_fwd|flash_bwd|triton_(?:poi|red|per)_"
)
"""Kernels of torch and the libraries below it: they compute on their own GPU."""

_LIBRARY_MOVES = re.compile(
    r"\bnccl(?:Symk?)?(?:Dev)?Kernel|nvshmem|\bc10d::symmetric_memory::(?!barrier)|\bmultimem_", re.IGNORECASE
)
_NOISE_BYTES, _NOISE = 64 * 1024, 0.05
"""What signals, and a counter's other traffic, may add to the bytes of copies."""

_REACHES_PEERS = frozenset({Primitive.SM_LOAD_STORE, Primitive.NVLS, Primitive.NVSHMEM, Primitive.NCCL_DEVICE})
"""Paths that a kernel of the submission itself would use: such a kernel may compute and send at once."""


class Part(StrEnum):
    """What a part of a call was used for."""

    COMPUTE = "compute"
    WIRE = "wire"
    MIXED = "mixed"


class Gap(StrEnum):
    """What separates a call from its floor.

    IDLE
        Nothing runs: launches, and waits for the host.
    WAIT
        Ranks are in a collective that another rank has not entered yet.
    WIRE
        Data moves below the link's rate.
    WORK
        Kernels compute below the ceilings of arithmetic and memory.
    MIXED
        Kernels that compute and send themselves take longer than the floor; no profiler can say which of both.
    """

    IDLE = "idle"
    WAIT = "wait"
    WIRE = "wire"
    WORK = "work"
    MIXED = "mixed"


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """The least that a call needs: the terms of its floor in microseconds, and the bytes over the links."""

    arithmetic_us: float
    memory_us: float
    wire_us: float
    wire_bytes: float
    flops: float

    @property
    def work_us(self) -> float:
        """The larger of arithmetic and memory, which overlap."""
        return max(self.arithmetic_us, self.memory_us)


@dataclass(frozen=True, kw_only=True)
class RankSplit:
    """One rank's share of the call, in microseconds; the parts add up to `call_us`.

    `compute_us`, `wire_us` are alone, `both_us` is compute beside wire. `wait_us` is spent in collectives until the
    last rank has entered them, `mixed_us` in the submission's own kernels that reach peers, and `idle_us` is none of
    these. `launches` counts work on the device, `host_waits` how often the host waited for it before it started more.
    """

    rank: int
    call_us: float
    compute_us: float
    wire_us: float
    both_us: float
    wait_us: float
    mixed_us: float
    idle_us: float
    launches: int
    host_waits: int

    @property
    def overlap(self) -> float | None:
        """The share of wire time beside which something computes; None where the wire is never used by itself."""
        wire_us = self.wire_us + self.both_us
        return self.both_us / wire_us if wire_us else None


def part(kind: SpanKind, name: str, *, primitives: frozenset[Primitive]) -> Part | None:
    """What a span is for; None for what the host does about the device.

    Args:
        kind: of the span.
        name: of the kernel, copy or operator.
        primitives: what the submission was seen to use. Without any, its kernels reach no peer.
    """
    if kind is SpanKind.COLLECTIVE:
        return Part.WIRE
    if kind is SpanKind.COPY:
        # Copies to and from a peer's mapped memory are among them, as recordings of our own kernels show.
        return Part.WIRE if _PEER_COPY.search(name) else Part.COMPUTE
    if kind is SpanKind.KERNEL:
        if _WIRE_KERNEL.search(name):
            return Part.WIRE
        own = not _LIBRARY_KERNEL.search(name)
        return Part.MIXED if own and primitives & _REACHES_PEERS else Part.COMPUTE
    return Part.COMPUTE if kind in (SpanKind.FILL, SpanKind.OPERATOR) else None


def moved_by_kernels(call: CallTimeline, sent_bytes: Sequence[int]) -> bool:
    """Whether the submission's kernels move data between GPUs, by what the links carried.

    Args:
        call: the recorded call.
        sent_bytes: what every rank sent over its links in a usual call, by the driver's counters.
    """
    names = {span.name for rank in call.ranks for span in rank.spans if span.kind is SpanKind.KERNEL}
    if any(_LIBRARY_MOVES.search(call.names[name].name) for name in names):
        return False  # the counters do not say whose bytes they are
    copied = sum(
        span.bytes
        for rank in call.ranks
        for span in rank.spans
        if span.kind is SpanKind.COPY and _PEER_COPY.search(call.names[span.name].name)
    )
    return sum(sent_bytes) - copied > max(_NOISE_BYTES * len(sent_bytes), _NOISE * sum(sent_bytes))


def window(call: CallTimeline) -> Interval:
    """Beginning and end of a call, as `split` defines them; raises ValueError where no rank left a span."""
    device = call.is_on_device
    spans = [span for rank in call.ranks for span in rank.spans if span.kind.is_on_device or not device]
    starts, ends = [span.start_ns for span in spans], [span.end_ns for span in spans]
    if not device:
        starts += [rank.begin_ns for rank in call.ranks if rank.spans]
        ends += [rank.end_ns for rank in call.ranks if rank.spans]
    return min(starts), max(ends)


@dataclass(frozen=True, kw_only=True)
class CollectiveWait:
    """A rank waited in this collective from `start_ns` to `end_ns`, when the last rank, `awaited`, entered."""

    name: int
    start_ns: int
    end_ns: int
    awaited: int


def collective_waits(
    call: CallTimeline, *, primitives: frozenset[Primitive] = frozenset()
) -> dict[int, list[CollectiveWait]]:
    """For each rank, its waits in library collectives until the last rank entered.

    The n-th span of a name on one rank belongs to the n-th on the others; where ranks have different numbers of them
    nothing is said.
    """
    entered: dict[int, dict[int, list[Span]]] = {}
    for rank in call.ranks:
        for span in sorted(rank.spans, key=lambda span: span.start_ns):
            if (
                span.kind is not SpanKind.COPY
                and part(span.kind, call.names[span.name].name, primitives=primitives) is Part.WIRE
            ):
                entered.setdefault(span.name, {}).setdefault(rank.rank, []).append(span)
    found: dict[int, list[CollectiveWait]] = {}
    for name, by_rank in entered.items():
        if len(by_rank) < len(call.ranks) or len({len(spans) for spans in by_rank.values()}) > 1:
            continue
        for together in zip(*([(rank, span) for span in spans] for rank, spans in by_rank.items()), strict=True):
            awaited, last = max(together, key=lambda entry: entry[1].start_ns)
            for rank, span in together:
                end_ns = min(last.start_ns, span.end_ns)
                if end_ns > span.start_ns:
                    wait = CollectiveWait(name=name, start_ns=span.start_ns, end_ns=end_ns, awaited=awaited)
                    found.setdefault(rank, []).append(wait)
    return found


def rank_split(
    rank: RankTimeline,
    part_of: Callable[[Span], Part | None],
    window: Interval,
    waits: Sequence[CollectiveWait],
) -> RankSplit:
    """The shares of one rank between the ends of `window`; `part_of` says what a span is for, None: of no interest."""
    by_part = {
        wanted: united(clipped(((one.start_ns, one.end_ns) for one in rank.spans if part_of(one) is wanted), window))
        for wanted in Part
    }
    compute, in_wire, mixed = (by_part[wanted] for wanted in (Part.COMPUTE, Part.WIRE, Part.MIXED))
    waiting = united(clipped(((wait.start_ns, wait.end_ns) for wait in waits), window))
    wire = without(in_wire, waiting)
    both_ns = length(compute) + length(wire) - length(united([*compute, *wire]))
    moving = united([*compute, *wire])
    with_waits = united([*moving, *waiting])
    all_ns = length(united([*with_waits, *mixed]))
    call_ns = window[1] - window[0]
    inside = [span for span in rank.spans if window[0] <= span.start_ns <= window[1]]
    return RankSplit(
        rank=rank.rank,
        call_us=call_ns / 1000,
        compute_us=(length(compute) - both_ns) / 1000,
        wire_us=(length(wire) - both_ns) / 1000,
        both_us=both_ns / 1000,
        wait_us=(length(with_waits) - length(moving)) / 1000,
        mixed_us=(all_ns - length(with_waits)) / 1000,
        idle_us=(call_ns - all_ns) / 1000,
        launches=sum(span.kind.is_on_device for span in inside),
        host_waits=len(host_waits(rank, window)),
    )


def host_waits(rank: RankTimeline, window: Interval) -> list[Span]:
    """The spans in which the host waits for the device inside `window`, before it starts more work.

    A wait after which nothing is started delays nothing. It may also be the recorder's own.
    """
    last_ns = max((span.start_ns for span in rank.spans if span.kind is SpanKind.LAUNCH), default=0)
    low, high = window
    return [
        span
        for span in rank.spans
        if span.kind is SpanKind.WAIT and span.end_ns > low and span.start_ns < high and span.start_ns < last_ns
    ]


def without(intervals: Sequence[Interval], taken: Sequence[Interval]) -> list[Interval]:
    """The time of `intervals` outside `taken`; neither list overlaps itself, and both are in order."""
    found, first = [], 0
    for start, end in intervals:
        # A stranger decides how many there are, so those that have ended are not looked at again.
        while first < len(taken) and taken[first][1] <= start:
            first += 1
        left, at = start, first
        while at < len(taken) and taken[at][0] < end:
            if taken[at][0] > left:
                found.append((left, taken[at][0]))
            left, at = max(left, taken[at][1]), at + 1
        if left < end:
            found.append((left, end))
    return found


def clipped(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    """What of the intervals lies inside `window`."""
    cut = ((max(start, window[0]), min(end, window[1])) for start, end in intervals)
    return [(start, end) for start, end in cut if end > start]


def united(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as intervals that do not overlap, in order."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(intervals: Iterable[Interval]) -> int:
    """How long they are together, where none overlaps another."""
    return sum(end - start for start, end in intervals)
