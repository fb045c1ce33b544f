"""Why a recorded call is not faster: why its GPUs are idle, and the largest gap to its floor, as advice."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from evaluator.contract import CallTimeline, RankTimeline, Span, SpanKind
from evaluator.judging.call_parts import (
    CollectiveWait,
    Gap,
    Interval,
    LowerBound,
    Part,
    RankSplit,
    clipped,
    host_waits,
    united,
)

_START_NS = 10_000
"""What lies between a launch and its work, or between two works in a queue, without anybody waiting."""


class Idle(StrEnum):
    """Why a GPU is idle.

    EDGE
        The rank has not begun yet, or has ended.
    HOST
        The host waits for the device before it starts the next work.
    LAUNCH
        The host starts the next work later for other reasons, or the device takes its time to begin it.
    SIGNAL
        The next work is queued, and no stream of the rank works: it waits for a signal from outside.
    """

    EDGE = "edge"
    HOST = "host"
    LAUNCH = "launch"
    SIGNAL = "signal"


def idle_by_cause(rank: RankTimeline, window: Interval) -> dict[Idle, int]:
    """How many nanoseconds of `window` the GPU of `rank` is idle, by cause.

    An idle time ends with some work. Until the launch of that work has returned, the host is the cause, and afterwards
    a signal. Where the launch is not known, the host is.
    """
    work = sorted((span for span in rank.spans if span.kind.is_on_device), key=lambda span: span.start_ns)
    busy = united(clipped(((span.start_ns, span.end_ns) for span in work), window))
    found = dict.fromkeys(Idle, 0)
    if not busy:
        return found | {Idle.EDGE: window[1] - window[0]}
    found[Idle.EDGE] = busy[0][0] - window[0] + window[1] - busy[-1][1]
    waits = united((wait.start_ns, wait.end_ns) for wait in host_waits(rank, window))
    launches = {span.flow: span for span in rank.spans if span.flow and span.kind is SpanKind.LAUNCH}
    starts = [span.start_ns for span in work]
    for (_, begin_ns), (end_ns, _) in pairwise(busy):
        launch = launches.get(work[bisect_left(starts, end_ns)].flow)
        queued_ns = min(end_ns, max(begin_ns, launch.end_ns)) if launch is not None else end_ns
        if end_ns - queued_ns <= _START_NS:
            queued_ns = end_ns
        found[Idle.SIGNAL] += end_ns - queued_ns
        found[_of_host(waits, begin_ns, queued_ns)] += queued_ns - begin_ns
    return found


def _of_host(waits: Sequence[Interval], begin_ns: int, end_ns: int) -> Idle:
    """Whether the host waited for the device between the end of one work and the start of the next."""
    # A stranger decides how many waits there are. None overlaps another, so the last one that began ends last.
    begun = bisect_left(waits, (end_ns, 0))
    return Idle.HOST if begun and waits[begun - 1][1] > begin_ns - _START_NS else Idle.LAUNCH


_FAR_LESS = 0.7
"""Below this share of another rank's time, a rank's own kernels hint that the other one waited."""
_FAR_MORE, _FEW_BYTES = 1.5, 2**20
_UNNAMED = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::")


@dataclass(frozen=True, kw_only=True)
class CallAnalysis:
    """The facts for the advice; `carried_bytes` is what the busiest rank sends over its links, None where not known."""

    call: CallTimeline
    ranks: tuple[RankSplit, ...]
    part_of: Callable[[Span], Part | None]
    waits: dict[int, list[CollectiveWait]]
    window: Interval
    least: LowerBound | None
    is_on_device: bool
    carried_bytes: int | None = None

    def worst(self, measure: Callable[[RankSplit], float]) -> RankSplit:
        """The rank on which `measure` is largest."""
        return max(self.ranks, key=measure)

    def spans(self, rank: int, wanted: Part) -> list[Span]:
        """The spans of a rank whose part is `wanted`."""
        return [span for span in self._timeline(rank).spans if self.part_of(span) is wanted]

    def host_waits(self, rank: int) -> list[Span]:
        """The spans in which a rank's host waits for its device inside the call, before it starts more work."""
        return host_waits(self._timeline(rank), self.window)

    def idle_ns(self, rank: int) -> dict[Idle, int]:
        """How long a rank's GPU is idle, by cause."""
        return idle_by_cause(self._timeline(rank), self.window)

    def name(self, span: Span) -> str:
        """The short name of a span."""
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


def _idle(analysis: CallAnalysis) -> str:
    rank = analysis.worst(lambda one: one.idle_us)
    share = f"For {_us(rank.idle_us)} of {_us(rank.call_us)}"
    if not analysis.is_on_device:
        return f"{share} rank {rank.rank} runs no operator: it runs Python code, or has returned."
    causes = analysis.idle_ns(rank.rank)
    cause = max(causes, key=lambda one: causes[one])
    if cause is Idle.SIGNAL:
        return f"{share} rank {rank.rank}'s GPU is idle. {_signal(analysis, rank, causes[cause])}"
    if cause is Idle.HOST:
        waits = analysis.host_waits(rank.rank)
        times = "once" if len(waits) == 1 else f"{len(waits)} times"
        return (
            f"{share} rank {rank.rank}'s GPU is idle: its host waits for the device {times} "
            f"inside the call ({analysis.name(waits[0])}), and starts the next work only then."
        )
    if cause is Idle.LAUNCH:
        return (
            f"{share} rank {rank.rank}'s GPU is idle between {rank.launches} kernels and copies. Fewer and longer "
            "ones, or a CUDA graph, would close the gaps."
        )
    return f"{share} rank {rank.rank}'s GPU is idle: it begins later or ends earlier than the other ranks."


def _signal(analysis: CallAnalysis, rank: RankSplit, waiting_ns: int) -> str:
    busiest = analysis.worst(_busy_us)
    text = f"For {_us(waiting_ns / 1000)} of that its queued work waits for a signal, from another rank or a host."
    if busiest.rank == rank.rank:
        return text
    return f"{text} Rank {busiest.rank}'s GPU is busy for {_us(_busy_us(busiest))}, its own for {_us(_busy_us(rank))}."


def _busy_us(rank: RankSplit) -> float:
    return rank.call_us - rank.idle_us - rank.wait_us


def _wait(analysis: CallAnalysis) -> str:
    rank = analysis.worst(lambda one: one.wait_us)
    longest = max(analysis.waits[rank.rank], key=lambda wait: wait.end_ns - wait.start_ns)
    name = short(analysis.call.names[longest.name].name)
    return (
        f"For {_us(rank.wait_us)} of {_us(rank.call_us)} rank {rank.rank} waits in collectives until the last rank "
        f"enters them, longest in {name} for rank {longest.awaited}: the ranks arrive at different times."
    )


def _wire(analysis: CallAnalysis) -> str:
    rank = analysis.worst(lambda one: one.wire_us + one.both_us)
    spans = analysis.spans(rank.rank, Part.WIRE)
    text = f"Rank {rank.rank} moves data for {_us(rank.wire_us + rank.both_us)} of {_us(rank.call_us)}"
    copies = [span.bytes for span in spans if span.kind is SpanKind.COPY and span.bytes]
    if len(copies) > 2 * len(analysis.ranks):
        text += f", in {len(copies)} copies with a median of {_bytes(median(copies))}"
    elif spans:
        text += f", mostly in {analysis.longest(spans)[0]}"
    if analysis.least is not None and analysis.least.wire_bytes:
        text += f"; {_bytes(analysis.least.wire_bytes)} at the link's rate need {_us(analysis.least.wire_us)}"
    if not rank.both_us and rank.compute_us > 0.2 * rank.call_us:
        text += ". Nothing computes at that time"
    return f"{text}.{_carried(analysis)}"


def _work(analysis: CallAnalysis) -> str:
    rank = analysis.worst(lambda one: one.compute_us + one.both_us)
    spans = analysis.spans(rank.rank, Part.COMPUTE)
    text = f"Rank {rank.rank} computes for {_us(rank.compute_us + rank.both_us)} of {_us(rank.call_us)}"
    if analysis.least is not None:
        ceiling = "arithmetic" if analysis.least.arithmetic_us >= analysis.least.memory_us else "memory"
        text += f"; the {ceiling} ceiling allows {_us(analysis.least.work_us)}"
    name, share = analysis.longest(spans)
    return f"{text}. {name} takes {share:.0%} of it.{_carried(analysis)}"


def _mixed(analysis: CallAnalysis) -> str:
    rank = analysis.worst(lambda one: one.mixed_us)
    name, share = analysis.longest(analysis.spans(rank.rank, Part.MIXED))
    others = {
        analysis.longest(spans)[0]: one.rank
        for one in analysis.ranks
        if one.rank != rank.rank and (spans := analysis.spans(one.rank, Part.MIXED))
    }
    text = f"Rank {rank.rank} is in the submission's own kernels for {_us(rank.mixed_us)} of {_us(rank.call_us)}"
    if analysis.least is not None:
        text += f"; the floor is {_us(max(analysis.least.work_us, analysis.least.wire_us))}"
    text += f". {name} takes {share:.0%} of it"
    if name not in others and others:
        other = next(iter(others))
        text += f", on rank {others[other]} {other} takes most"
    text += (
        ". Kernels of this submission access peers: the profiler does not show whether a kernel computes, sends or "
        f"waits.{_carried(analysis)}"
    )
    quickest = min(analysis.ranks, key=lambda one: one.mixed_us)
    if 0 < quickest.mixed_us < _FAR_LESS * rank.mixed_us:
        text += f" Rank {quickest.rank} takes {_us(quickest.mixed_us)} for its own, so the rest may be waiting for it."
    return text


def _carried(analysis: CallAnalysis) -> str:
    """What the links carry, where it is far more than the least."""
    carried = analysis.carried_bytes or 0
    if analysis.least is None:
        return ""
    least = analysis.least.wire_bytes
    if carried < _FAR_MORE * least or carried - least < _FEW_BYTES:
        return ""
    enough = f"{_bytes(least)} would do" if least else "the problem needs none"
    return f" One rank sends {_bytes(carried)} over its links; {enough}."


_SENTENCES: dict[Gap, Callable[[CallAnalysis], str]] = {
    Gap.IDLE: _idle,
    Gap.WAIT: _wait,
    Gap.WIRE: _wire,
    Gap.WORK: _work,
    Gap.MIXED: _mixed,
}


def advice(analysis: CallAnalysis, gap: Gap) -> str:
    """What causes `gap`, and what would close it."""
    return _SENTENCES[gap](analysis)


def short(name: str, *, most: int = 60) -> str:
    """A kernel's name without its arguments; a long one without its middle."""
    bare = _UNNAMED.sub("", name).removeprefix("void ").split("(")[0] or name
    bare = re.sub(r"<.*", "", bare) or bare
    return bare if len(bare) <= most else f"{bare[: most - 21]}...{bare[-18:]}"


def _us(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g} s"
    return f"{value / 1000:.3g} ms" if value >= 1000 else f"{value:.3g} us"


def _bytes(value: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} bytes"
