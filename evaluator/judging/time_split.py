"""Where the time of a recorded call went: compute, wire, both at once, neither; and which gap to the floor is largest.

All of it rests on what the ranks' profiler told, so nothing here enters a score or a verdict.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median

from evaluator.contract import CallTimeline, Primitive, RankTimeline, Span, SpanKind

Interval = tuple[int, int]

_WIRE_KERNEL = re.compile(r"\bnccl(?:Symk?)?(?:Dev)?Kernel|nvshmem|\bc10d::symmetric_memory::", re.IGNORECASE)
_PEER_COPY = re.compile(r"PtoP|Peer")
_LIBRARY_KERNEL = re.compile(
    r"\bat::|\bc10::|cutlass|cublas|cudnn|nvjet|\bsm\d\d_|ampere_|hopper_|cub::|thrust::|flash_fwd|flash_bwd|triton_(?:poi|red|per)_"
)
"""Kernels of torch and the libraries below it: they compute on their own GPU."""

_REACHES_PEERS = frozenset({Primitive.SM_LOAD_STORE, Primitive.NVLS, Primitive.NVSHMEM, Primitive.NCCL_DEVICE})
"""Paths that a kernel of the submission itself would use: such a kernel may compute and send at once."""


class Part(StrEnum):
    """What a stretch of a call was for."""

    COMPUTE = "compute"
    WIRE = "wire"
    MIXED = "mixed"


class Gap(StrEnum):
    """What keeps a call from its floor.

    IDLE
        Nothing runs: launches, waits for the host or for another rank.
    WIRE
        Data moves below the link's rate.
    WORK
        Kernels compute below the ceilings of arithmetic and memory.
    MIXED
        Kernels that compute and send themselves take longer than the floor; which of both, no profiler tells.
    """

    IDLE = "idle"
    WIRE = "wire"
    WORK = "work"
    MIXED = "mixed"


@dataclass(frozen=True, kw_only=True)
class Least:
    """What a call needs at least, in microseconds: the terms of its floor, and the bytes that cross the links."""

    arithmetic_us: float
    memory_us: float
    wire_us: float
    wire_bytes: float
    flops: float

    @property
    def work_us(self) -> float:
        """Of arithmetic and memory the larger: both go on at once."""
        return max(self.arithmetic_us, self.memory_us)


@dataclass(frozen=True, kw_only=True)
class RankSplit:
    """One rank's share of the call, in microseconds; the first five add up to `call_us`.

    `compute_us`, `wire_us` are alone, `both_us` is compute beside wire, `mixed_us` is spent in the submission's own
    kernels that reach peers, `idle_us` is none of these. `launches` and `waits` are what the host did meanwhile.
    """

    rank: int
    call_us: float
    compute_us: float
    wire_us: float
    both_us: float
    mixed_us: float
    idle_us: float
    launches: int
    waits: int

    @property
    def overlap(self) -> float | None:
        """The share of wire time beside which something computes; None where the wire is never used by itself."""
        wire_us = self.wire_us + self.both_us
        return self.both_us / wire_us if wire_us else None


@dataclass(frozen=True, kw_only=True)
class Split:
    """Where a call's time went on every rank, and what that says.

    `gaps_us` are means over the ranks of what a perfect call would not take; `largest` is the first of them. `advice`
    is that one as a sentence. `wire_bytes_s` and `flops_s` are the floor's least work over the time in which it was
    done; None where nothing of the kind ran, or no floor applies.
    """

    ranks: tuple[RankSplit, ...]
    gaps_us: dict[Gap, float]
    largest: Gap
    advice: str
    wire_bytes_s: float | None
    flops_s: float | None

    @property
    def accounted(self) -> float:
        """The share of the call in which something is known to run, on average over the ranks."""
        return 1 - fmean(rank.idle_us for rank in self.ranks) / max(1e-9, self.ranks[0].call_us)


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
        # A peer's memory that is mapped here looks like this GPU's own.
        crosses = _PEER_COPY.search(name) or ("DtoD" in name and Primitive.COPY_ENGINE in primitives)
        return Part.WIRE if crosses else Part.COMPUTE
    if kind is SpanKind.KERNEL:
        if _WIRE_KERNEL.search(name):
            return Part.WIRE
        own = not _LIBRARY_KERNEL.search(name)
        return Part.MIXED if own and primitives & _REACHES_PEERS else Part.COMPUTE
    return Part.COMPUTE if kind in (SpanKind.FILL, SpanKind.OPERATOR) else None


def split(call: CallTimeline, *, primitives: Iterable[Primitive] = (), least: Least | None = None) -> Split | None:
    """Where the time of `call` went; None where no rank left a span.

    On GPUs the call lasts from the first work on any device to the last, for launches wait behind a gate until then;
    on CPU ranks from the first rank's entry to the last one's return.

    Args:
        call: what ran when on every rank.
        primitives: what the program was seen to use.
        least: the floor's terms; None where no floor applies.
    """
    if call.is_empty:
        return None
    known = frozenset(primitives)
    is_on_device, whole = call.is_on_device, window(call)

    def part_of(span: Span) -> Part | None:
        if is_on_device and not span.kind.is_on_device:
            return None
        return part(span.kind, call.names[span.name].name, primitives=known)

    ranks = tuple(_rank_split(rank, part_of, whole) for rank in call.ranks)
    gaps_us = _gaps(ranks, least)
    largest = max(gaps_us, key=lambda gap: gaps_us[gap])
    story = _Story(call=call, ranks=ranks, part_of=part_of, window=whole, least=least, is_on_device=is_on_device)
    wire_us = fmean(rank.wire_us + rank.both_us + rank.mixed_us for rank in ranks)
    work_us = fmean(rank.compute_us + rank.both_us + rank.mixed_us for rank in ranks)
    return Split(
        ranks=ranks,
        gaps_us=gaps_us,
        largest=largest,
        advice=_ADVICE[largest](story),
        wire_bytes_s=least.wire_bytes / wire_us * 1e6 if least and wire_us and least.wire_bytes else None,
        flops_s=least.flops / work_us * 1e6 if least and work_us and least.flops else None,
    )


def window(call: CallTimeline) -> Interval:
    """From when until when a call lasts, as `split` says; raises ValueError where no rank left a span."""
    device = call.is_on_device
    spans = [span for rank in call.ranks for span in rank.spans if span.kind.is_on_device or not device]
    starts, ends = [span.start_ns for span in spans], [span.end_ns for span in spans]
    if not device:
        starts += [rank.begin_ns for rank in call.ranks if rank.spans]
        ends += [rank.end_ns for rank in call.ranks if rank.spans]
    return min(starts), max(ends)


def _rank_split(rank: RankTimeline, part_of: Callable[[Span], Part | None], window: Interval) -> RankSplit:
    by_part = {
        wanted: united(_clipped(((one.start_ns, one.end_ns) for one in rank.spans if part_of(one) is wanted), window))
        for wanted in Part
    }
    compute, wire, mixed = (by_part[wanted] for wanted in (Part.COMPUTE, Part.WIRE, Part.MIXED))
    both_ns = length(compute) + length(wire) - length(united([*compute, *wire]))
    known_ns = length(united([*compute, *wire]))
    all_ns = length(united([*compute, *wire, *mixed]))
    call_ns = window[1] - window[0]
    inside = [span for span in rank.spans if window[0] <= span.start_ns <= window[1]]
    return RankSplit(
        rank=rank.rank,
        call_us=call_ns / 1000,
        compute_us=(length(compute) - both_ns) / 1000,
        wire_us=(length(wire) - both_ns) / 1000,
        both_us=both_ns / 1000,
        mixed_us=(all_ns - known_ns) / 1000,
        idle_us=(call_ns - all_ns) / 1000,
        launches=sum(span.kind.is_on_device for span in inside),
        waits=sum(span.kind is SpanKind.WAIT for span in inside),
    )


def _clipped(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
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


def _gaps(ranks: Sequence[RankSplit], least: Least | None) -> dict[Gap, float]:
    """What a perfect call would not take, by its cause; the floor's terms count where that kind of work was done."""
    idle_us = fmean(rank.idle_us for rank in ranks)
    wire_us = fmean(rank.wire_us + rank.both_us for rank in ranks)
    work_us = fmean(rank.compute_us + rank.both_us for rank in ranks)
    mixed_us = fmean(rank.mixed_us for rank in ranks)
    least_wire_us, least_work_us = (least.wire_us, least.work_us) if least else (0.0, 0.0)
    left_us = max(least_wire_us - wire_us, least_work_us - work_us, 0.0)
    return {
        Gap.IDLE: idle_us,
        Gap.WIRE: max(0.0, wire_us - least_wire_us),
        Gap.WORK: max(0.0, work_us - least_work_us),
        Gap.MIXED: max(0.0, mixed_us - left_us),
    }


# ---- one sentence that an author can act on -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Story:
    """What a sentence is made of."""

    call: CallTimeline
    ranks: tuple[RankSplit, ...]
    part_of: Callable[[Span], Part | None]
    window: Interval
    least: Least | None
    is_on_device: bool

    def worst(self, measure: Callable[[RankSplit], float]) -> RankSplit:
        """The rank on which `measure` is largest."""
        return max(self.ranks, key=measure)

    def spans(self, rank: int, wanted: Part) -> list[Span]:
        """The spans of a rank that are for `wanted`."""
        return [span for span in self._timeline(rank).spans if self.part_of(span) is wanted]

    def waits(self, rank: int) -> list[Span]:
        """Where the host of a rank waits for its device inside the call."""
        low, high = self.window
        return [one for one in self._timeline(rank).spans if one.kind is SpanKind.WAIT and low <= one.start_ns < high]

    def name(self, span: Span) -> str:
        """What a sentence calls a span."""
        return short(self.call.names[span.name].name)

    def _timeline(self, rank: int) -> RankTimeline:
        return next(one for one in self.call.ranks if one.rank == rank)

    def longest(self, spans: Sequence[Span]) -> tuple[str, float]:
        """The name that took longest among `spans`, and its share of their time."""
        by_name: dict[str, int] = {}
        for span in spans:
            by_name[self.name(span)] = by_name.get(self.name(span), 0) + span.ns
        name = max(by_name, key=lambda one: by_name[one])
        return name, by_name[name] / max(1, sum(by_name.values()))


def _idle(story: _Story) -> str:
    rank = story.worst(lambda one: one.idle_us)
    share = f"For {_us(rank.idle_us)} of {_us(rank.call_us)}"
    if not story.is_on_device:
        return f"{share} rank {rank.rank} runs no operator: it is in Python, or waits for another rank."
    waits = story.waits(rank.rank)
    if len(waits) > 1:
        # The last one is the recorder's own.
        return (
            f"{share} nothing runs on rank {rank.rank}'s GPU: its host waits for the device {_times(len(waits) - 1)} "
            f"inside the call ({story.name(waits[0])}), and starts the next work only then."
        )
    if rank.launches > len(story.ranks):
        return (
            f"{share} nothing runs on rank {rank.rank}'s GPU, between {rank.launches} kernels and copies: fewer and "
            "longer ones, or a CUDA graph, would close the gaps."
        )
    return f"{share} nothing runs on rank {rank.rank}'s GPU: it begins later or ends earlier than the other ranks."


def _wire(story: _Story) -> str:
    rank = story.worst(lambda one: one.wire_us + one.both_us)
    spans = story.spans(rank.rank, Part.WIRE)
    text = f"Rank {rank.rank} moves data for {_us(rank.wire_us + rank.both_us)} of {_us(rank.call_us)}"
    if story.least is not None and story.least.wire_bytes:
        text += f", where {_bytes(story.least.wire_bytes)} at the link's rate need {_us(story.least.wire_us)}"
    copies = [span.bytes for span in spans if span.kind is SpanKind.COPY and span.bytes]
    if len(copies) > 2 * len(story.ranks):
        text += f": {len(copies)} copies of {_bytes(median(copies))} each at the median"
    elif spans:
        text += f": mostly in {story.longest(spans)[0]}"
    if not rank.both_us and rank.compute_us > 0.2 * rank.call_us:
        text += ", and nothing computes meanwhile"
    return f"{text}."


def _work(story: _Story) -> str:
    rank = story.worst(lambda one: one.compute_us + one.both_us)
    spans = story.spans(rank.rank, Part.COMPUTE)
    text = f"Rank {rank.rank} computes for {_us(rank.compute_us + rank.both_us)} of {_us(rank.call_us)}"
    if story.least is not None:
        ceiling = "arithmetic" if story.least.arithmetic_us >= story.least.memory_us else "memory"
        text += f", where the ceiling of {ceiling} asks for {_us(story.least.work_us)}"
    name, share = story.longest(spans)
    return f"{text}; {name} takes {share:.0%} of it."


def _mixed(story: _Story) -> str:
    rank = story.worst(lambda one: one.mixed_us)
    name, share = story.longest(story.spans(rank.rank, Part.MIXED))
    text = f"Rank {rank.rank} is in kernels that reach peers themselves for {_us(rank.mixed_us)} of {_us(rank.call_us)}"
    if story.least is not None:
        text += f", where the floor is {_us(max(story.least.work_us, story.least.wire_us))}"
    return (
        f"{text}; {name} takes {share:.0%} of it. Whether it computes, sends or waits there, the profiler cannot tell."
    )


_ADVICE: dict[Gap, Callable[[_Story], str]] = {
    Gap.IDLE: _idle,
    Gap.WIRE: _wire,
    Gap.WORK: _work,
    Gap.MIXED: _mixed,
}


def short(name: str, *, most: int = 60) -> str:
    """A kernel's name without its arguments, and without the middle where it is long."""
    bare = re.sub(r"^void ", "", name).split("(")[0] or name
    bare = re.sub(r"<.*", "", bare) or bare
    return bare if len(bare) <= most else f"{bare[: most - 21]}...{bare[-18:]}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _us(value: float) -> str:
    return f"{value / 1000:.3g} ms" if value >= 1000 else f"{value:.3g} us"


def _bytes(value: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} bytes"
