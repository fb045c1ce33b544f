"""The recorded call of an evaluation: where its time went, its kernels, and the trace that Perfetto opens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from evaluator.contract import (
    CallKind,
    CallTimeline,
    EvaluationReport,
    LinkTraffic,
    Primitive,
    RankTimeline,
    Span,
    SpanKind,
    Timeline,
)
from evaluator.hardware import profiles
from evaluator.judging import call_parts, occupancy, time_split
from evaluator.judging.call_advice import short
from evaluator.judging.floors import Bound, floor
from portal.catalog.queries import ELEMENT_BYTES
from portal.charts.timeline import Group, Mark, Row, bar, pictures
from problems import registry
from problems.spec.schema import SizeName

NCCL_ALONE = frozenset({Primitive.NCCL})
"""What references move data with."""

NO_COUNTERS = "UNAVAILABLE: the links' counters were not read"
MOST_KERNELS = 40
_NOTICEABLE = 0.1
_RECENT_CALLS = 15
"""How many plain calls give the usual time where nothing is timed: the last ones, at their steady speed."""
_TAKES_TURNS = (
    "All ranks share one GPU and take turns on it. The picture shows in which order their work ran; how long it took "
    "says nothing about a GPU for each rank."
)
_FOUR_BYTES = frozenset({"float32"})


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One program's recorded call with its split; `title` names it in pictures and tables.

    `usual_us` is what its calls take that nobody records, None where that is not known. `gpu` is the model.
    """

    title: str
    call: CallTimeline
    split: time_split.Split
    primitives: frozenset[Primitive]
    usual_us: float | None = None
    gpu: str | None = None

    @property
    def is_slowed(self) -> bool:
        return self.usual_us is not None and self.split.surplus_us > _NOTICEABLE * self.usual_us

    @property
    def uncertainty_us(self) -> float:
        """The uncertainty of the alignment of one rank with another."""
        return max(rank.uncertainty_ns for rank in self.call.ranks) / 1000

    @property
    def gates_apart_us(self) -> float | None:
        """How far the ranks' gates, which open at once, lie apart by the devices' clocks; None without gates."""
        opened = [rank.opened_ns for rank in self.call.ranks if rank.opened_ns is not None]
        return (max(opened) - min(opened)) / 1000 if len(opened) > 1 else None

    @property
    def dropped(self) -> int:
        """Spans that were too many, on the rank with most of them."""
        return max(rank.dropped for rank in self.call.ranks)


def recorded_calls(report: EvaluationReport) -> list[Recorded]:
    """The reference's call, where it was recorded, then the submission's; empty where there is no timeline."""
    timeline = report.timeline
    if timeline is None:
        return []
    least = least_work(report)
    used = frozenset(detection.primitive for detection in report.primitives)
    links = counted_links(report)
    sent_bytes = links.sent_bytes if links is not None else ()
    if call_parts.moved_by_kernels(timeline.submission, sent_bytes):
        used |= {Primitive.SM_LOAD_STORE}
    gpu = profiles.get(report.profile).gpu
    submission_us, reference_us = _usual_us(report, timeline)
    programs = (
        ("Reference", timeline.reference, NCCL_ALONE, reference_us, None),
        ("Submission", timeline.submission, used, submission_us, max(sent_bytes, default=None)),
    )
    found = []
    for title, call, primitives, usual_us, carried_bytes in programs:
        if call is None:
            continue
        split = time_split.split(
            call, primitives=primitives, least=least, usual_us=usual_us, carried_bytes=carried_bytes
        )
        if split is not None:
            if report.is_untimed:
                split = replace(split, advice=_TAKES_TURNS)
            found.append(
                Recorded(title=title, call=call, split=split, primitives=primitives, usual_us=usual_us, gpu=gpu)
            )
    return found


def recorded_links(report: EvaluationReport) -> LinkTraffic | None:
    """What the links carried at the recorded size; None without a record of it."""
    sizes = report.record.sizes if report.record is not None else ()
    return next((one.links for one in sizes if one.size == _size(report) and one.links is not None), None)


def counted_links(report: EvaluationReport) -> LinkTraffic | None:
    """The links' counters at the recorded size, read for every rank; None where they were not."""
    links = recorded_links(report)
    is_whole = links is not None and len(links.sent_bytes) == len(links.received_bytes) == report.world_size
    return links if is_whole else None


def link_rows(reports: Mapping[str, EvaluationReport]) -> list[dict[str, Any]]:
    """What every rank of every report sent and received over its links at its recorded size, or `why` nobody knows.

    Empty without GPUs.
    """
    return [
        {
            "title": title,
            "rank": rank,
            "sent_bytes": whole.sent_bytes[rank] if whole is not None else None,
            "received_bytes": whole.received_bytes[rank] if whole is not None else None,
            "least_bytes": links.least_bytes if (links := recorded_links(report)) is not None else 0.0,
            "why": NO_COUNTERS if whole is None else "",
        }
        for title, report in reports.items()
        if profiles.get(report.profile).gpu is not None and report.timeline is not None
        for whole in [counted_links(report)]
        for rank in range(report.world_size)
    ]


def _usual_us(report: EvaluationReport, timeline: Timeline) -> tuple[float | None, float | None]:
    """What calls of submission and reference take on GPUs: the timed ones, else the submission's plain ones.

    On CPU ranks the recorded call and the others are no two of a kind: there it is not known.
    """
    if profiles.get(report.profile).gpu is None or timeline.submission.is_empty:
        return None, None
    sizes = report.timing.sizes if report.timing is not None else ()
    timed = next((one for one in sizes if one.size == timeline.size), None)
    if timed is not None:
        return timed.candidate.median_us, timed.baseline.median_us
    records = report.record.sizes if report.record is not None else ()
    calls = [call for one in records if one.size == timeline.size for call in one.calls]
    plain = [call.time_ns for call in calls if call.kind is CallKind.PLAIN]
    recorded = [call.time_ns for call in calls if call.kind is CallKind.RECORDED]
    if not plain or not recorded:
        return None, None
    # By the host's clock both include what the judge queues around the program. The picture does not.
    start_ns, end_ns = call_parts.window(timeline.submission)
    usual_ns = end_ns - start_ns - (recorded[-1] - median(plain[-_RECENT_CALLS:]))
    return max(0.0, usual_ns / 1000), None


def comparable(reports: Mapping[str, EvaluationReport]) -> dict[str, EvaluationReport]:
    """The reports whose calls were recorded on the profile and at the size of the last one."""
    last = list(reports.values())[-1]
    return {
        title: report
        for title, report in reports.items()
        if (report.profile, _size(report)) == (last.profile, _size(last))
    }


def beside_each_other(reports: Mapping[str, EvaluationReport]) -> list[Recorded]:
    """The submissions' calls of several reports under the titles given, as far as they are `comparable`."""
    return [
        replace(call, title=title)
        for title, report in comparable(reports).items()
        for call in recorded_calls(report)
        if call.title == "Submission"
    ]


def _size(report: EvaluationReport) -> str:
    return report.timeline.size if report.timeline else ""


def least_work(report: EvaluationReport) -> call_parts.LowerBound | None:
    """What a call at the recorded size needs at least on this hardware; None where no floor applies."""
    profile = profiles.get(report.profile)
    size = next((one for one in report.sizes if report.timeline and one.size == report.timeline.size), None)
    if profile.peaks is None or size is None:
        return None
    problem = registry.get(report.problem)
    # The model counts dimensions of today's card; an earlier revision's, or a stranger's, may be others.
    if size.size not in set(SizeName) or size.dims != problem.dims(SizeName(size.size), report.world_size):
        return None
    element_bytes = 4 if report.dtype in _FOUR_BYTES else ELEMENT_BYTES
    cost = problem.cost(size.dims, report.world_size, element_bytes)
    terms = floor(cost, profile.peaks, dtype=report.dtype).terms_us
    return call_parts.LowerBound(
        arithmetic_us=terms[Bound.ARITHMETIC],
        memory_us=terms[Bound.MEMORY],
        wire_us=terms[Bound.WIRE],
        wire_bytes=cost.wire_bytes,
        flops=sum(cost.flops.values()),
    )


def kernel_rows(recorded: Recorded) -> list[dict[str, Any]]:
    """The work of a call by name and launch, the longest first: the devices' work, or the operators of CPU ranks.

    Each is on the rank where it took longest; times are in microseconds.
    """
    best: dict[int, dict[str, Any]] = {}
    for rank in recorded.call.ranks:
        for row, name in _rank_rows(recorded, rank, on_device=recorded.call.is_on_device):
            if name not in best or row["us"] > best[name]["us"]:
                best[name] = row
    return sorted(best.values(), key=lambda row: -row["us"])[:MOST_KERNELS]


def _rank_rows(recorded: Recorded, rank: RankTimeline, *, on_device: bool) -> Iterator[tuple[dict[str, Any], int]]:
    by_name: dict[int, list[Any]] = {}
    for span in rank.spans:
        if span.kind.is_on_device if on_device else span.kind not in (SpanKind.LAUNCH, SpanKind.WAIT):
            by_name.setdefault(span.name, []).append(span)
    for number, spans in by_name.items():
        work, kind = recorded.call.names[number], spans[0].kind
        yield (
            {
                "name": work.name,
                "kind": kind,
                "part": call_parts.part(kind, work.name, primitives=recorded.primitives),
                "rank": rank.rank,
                "count": len(spans),
                "us": sum(span.ns for span in spans) / 1000,
                "bytes": sum(span.bytes for span in spans),
                "grid": work.grid if any(work.grid) else None,
                "block": work.block if any(work.block) else None,
                "registers": work.registers,
                "shared_bytes": work.shared_bytes,
                "occupancy": work.occupancy or occupancy.estimate(work, gpu=recorded.gpu),
            },
            number,
        )


# ---- the picture ----------------------------------------------------------------------------------------------------

_MOST_MARKS = 150
"""The most marks of a picture, the longest ones; the trace has all."""
_WHOLE_NAME = 60
"""The most characters of a name that a mark says as it is; the table of kernels has it whole."""
_TONES = {call_parts.Part.COMPUTE: "accent", call_parts.Part.WIRE: "warning", call_parts.Part.MIXED: "code-keyword"}
_HOST_TONES = {SpanKind.LAUNCH: "text-faint", SpanKind.WAIT: "danger"}


def picture(calls: Sequence[Recorded], *, least: call_parts.LowerBound | None) -> dict[str, Any]:
    """The timelines of `calls` under each other, each from zero, below the terms of the floor where one applies.

    All are on one scale, drawn for wide pages and for phones; `hidden` marks were too many.
    """
    windows = [call_parts.window(recorded.call) for recorded in calls]
    # Spans may last no time at all, for strangers wrote them.
    floors = _floor_group(least) if least is not None else []
    terms_ns = (mark.ns for group in floors for row in group.rows for mark in row.marks)
    length_ns = max(1, *(end - start for start, end in windows), *terms_ns)
    spans = [span for recorded in calls for rank in recorded.call.ranks for span in rank.spans]
    least_ns = sorted((span.ns for span in spans), reverse=True)[:_MOST_MARKS][-1]
    groups = floors + [
        group
        for recorded, (start, _) in zip(calls, windows, strict=True)
        for group in _groups(recorded, start, least_ns=least_ns)
    ]
    names = " and ".join(recorded.title.lower() for recorded in calls)
    label = f"Timeline of every rank: {names}; the tables below have the sums"
    wide, narrow = pictures(groups, length_ns=length_ns, label=label)
    hidden = sum(span.ns < least_ns for span in spans)
    return {"wide": wide, "narrow": narrow, "length_ns": length_ns, "hidden": hidden, "has_floor": bool(floors)}


def _floor_group(least: call_parts.LowerBound) -> list[Group]:
    """The least time for arithmetic, device memory and wire: a perfect call takes as long as the longest of them."""
    terms = (
        (Bound.ARITHMETIC, least.arithmetic_us, "accent"),
        (Bound.MEMORY, least.memory_us, "code-type"),
        (Bound.WIRE, least.wire_us, "warning"),
    )
    rows = [
        Row(
            label=bound,
            marks=[Mark(start_ns=0, ns=round(us * 1000), tone=tone, title=f"{bound}: {us:,.2f} us at least")],
        )
        for bound, us, tone in terms
    ]
    return [Group(heading="Floor", rows=rows)]


def _groups(recorded: Recorded, start_ns: int, *, least_ns: int) -> Iterator[Group]:
    waits = call_parts.collective_waits(recorded.call, primitives=recorded.primitives)
    for rank in recorded.call.ranks:
        rows = _rows(recorded, rank, waits.get(rank.rank, []), start_ns, least_ns=least_ns)
        yield Group(heading=f"{recorded.title}, rank {rank.rank}", rows=rows)


def _rows(
    recorded: Recorded, rank: RankTimeline, waits: Sequence[call_parts.CollectiveWait], start_ns: int, *, least_ns: int
) -> list[Row]:
    """The streams and threads of a rank on which something ran in the call."""
    found = []
    until = {(wait.name, wait.start_ns): wait for wait in waits}
    for number, label in enumerate(rank.lanes):
        shown = [span for span in rank.spans if span.lane == number and span.ns >= least_ns and span.end_ns > start_ns]
        # What began earlier is drawn first: an operator lies under the launches that it made.
        ordered = sorted(shown, key=lambda span: (span.start_ns, -span.ns))
        marks = [_mark(recorded, span, start_ns) for span in ordered]
        marks += [
            _wait_mark(until[span.name, span.start_ns], start_ns)
            for span in ordered
            if (span.name, span.start_ns) in until
        ]
        if marks:
            found.append(Row(label=label, marks=marks))
    return found


def _mark(recorded: Recorded, span: Span, start_ns: int) -> Mark:
    work = recorded.call.names[span.name]
    part = call_parts.part(span.kind, work.name, primitives=recorded.primitives)
    size = f", {span.bytes:,} bytes" if span.bytes else ""
    begin_ns = max(0, span.start_ns - start_ns)
    is_operator = span.kind is SpanKind.OPERATOR and recorded.call.is_on_device
    name = work.name if len(work.name) <= _WHOLE_NAME else short(work.name)
    lasts = f"{span.ns / 1000:,.2f} us from {begin_ns / 1000:,.2f} us"
    return Mark(
        start_ns=begin_ns,
        ns=max(1, span.end_ns - start_ns - begin_ns),
        tone="border-strong" if is_operator else _TONES[part] if part else _HOST_TONES[span.kind],
        title=f"{name}: {lasts}{size} ({part or span.kind})",
        is_thin=span.kind in _HOST_TONES,
    )


def _wait_mark(wait: call_parts.CollectiveWait, start_ns: int) -> Mark:
    """The part of a collective in which its rank waited, over it."""
    begin_ns = max(0, wait.start_ns - start_ns)
    return Mark(
        start_ns=begin_ns,
        ns=max(1, wait.end_ns - start_ns - begin_ns),
        tone="text-faint",
        title=f"waits {(wait.end_ns - wait.start_ns) / 1000:,.2f} us for rank {wait.awaited} to enter",
    )


def split_bar(rank: call_parts.RankSplit) -> str:
    """Where the time of one rank went, as a bar."""
    parts = (
        ("compute", rank.compute_us, "accent"),
        ("compute and wire at once", rank.both_us, "success"),
        ("wire", rank.wire_us, "warning"),
        ("waiting for the last rank", rank.wait_us, "text-faint"),
        ("own kernels", rank.mixed_us, "code-keyword"),
        ("neither", rank.idle_us, "border"),
    )
    return bar([(us, tone, f"{name}: {us:,.2f} us") for name, us, tone in parts])


# ---- the trace that Perfetto and chrome://tracing open --------------------------------------------------------------


def trace(report: EvaluationReport) -> dict[str, Any]:
    """All ranks of both programs in one file of the Trace Event Format; times in microseconds.

    Every rank of a program is a process there, and every stream or thread one of its threads. Arrows lead from
    launches to what they started.
    """
    events: list[dict[str, Any]] = []
    process = 0
    for recorded in recorded_calls(report):
        for rank in recorded.call.ranks:
            process += 1
            events += _named(process, f"{recorded.title}, rank {rank.rank}", rank)
            events += _spans(process, recorded, rank)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "evaluation": report.evaluation_id,
            "problem": report.problem,
            "profile": report.profile,
            "size": report.timeline.size if report.timeline else "",
        },
    }


def _named(process: int, title: str, rank: RankTimeline) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": title}}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
    for lane, name in enumerate(rank.lanes):
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": lane, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": lane, "args": {"sort_index": lane}}


def _spans(process: int, recorded: Recorded, rank: RankTimeline) -> Iterator[dict[str, Any]]:
    starters = {span.flow for span in rank.spans if span.flow and span.kind is SpanKind.LAUNCH}
    for span in rank.spans:
        work = recorded.call.names[span.name]
        at = {"pid": process, "tid": span.lane, "ts": span.start_ns / 1000}
        details: dict[str, Any] = {"kind": span.kind.value}
        if span.bytes:
            details["bytes"] = span.bytes
        if any(work.grid):
            details |= {
                "grid": list(work.grid),
                "block": list(work.block),
                "registers per thread": work.registers,
                "shared memory": work.shared_bytes,
            }
        yield {"ph": "X", "name": work.name, "cat": span.kind.value, "dur": span.ns / 1000, "args": details, **at}
        if span.flow in starters:
            flow = {"cat": "launch", "name": "launch", "id": f"{process}-{span.flow}", **at}
            yield {"ph": "s", **flow} if span.kind is SpanKind.LAUNCH else {"ph": "f", "bp": "e", **flow}
