"""How many bytes a call moves from each rank to each other one, as far as anything shows it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

from evaluator.contract import EvaluationReport, SpanKind
from evaluator.hardware import profiles
from evaluator.judging import call_parts
from evaluator.judging.call_parts import Part
from portal.submissions.reports.timelines import Recorded, counted_links, recorded_links

NO_COUNTERS = "UNAVAILABLE: the links' counters were not read"
NO_ENDS = "UNAVAILABLE: the profiler does not name both ends of every copy"
NO_PAIRS = "UNAVAILABLE: the links count bytes per GPU, and NCCL's kernels and stores to a peer name no pair"


@dataclass(frozen=True, kw_only=True)
class PairTraffic:
    """From one rank to another: `bytes` in a usual call, by the links' counters, or `why` they are not known.

    `copied_bytes` is what copies of any rank moved this way in the recorded call, or `why_not_copied`. `least_bytes` is
    the cost model's least for the busiest rank.
    """

    sender: int
    receiver: int
    bytes: int | None
    why: str
    copied_bytes: int | None
    why_not_copied: str
    least_bytes: float


def pair_traffic(report: EvaluationReport, recorded: Recorded) -> list[PairTraffic]:
    """Every pair of ranks at the recorded size, in both directions; empty without GPUs."""
    if recorded.gpu is None or report.timeline is None:
        return []
    links, copied, world_size = recorded_links(report), _copied(recorded), report.world_size
    is_read = links is not None and len(links.sent_bytes) == world_size
    # With two ranks, what one sends the other receives.
    is_known = is_read and world_size == 2
    return [
        PairTraffic(
            sender=sender,
            receiver=receiver,
            bytes=links.sent_bytes[sender] if links is not None and is_known else None,
            why="" if is_known else NO_PAIRS if is_read else NO_COUNTERS,
            copied_bytes=None if copied is None else copied.get((sender, receiver), 0),
            why_not_copied=NO_ENDS if copied is None else "",
            least_bytes=links.least_bytes if links is not None else 0.0,
        )
        for sender, receiver in permutations(range(world_size), 2)
    ]


@dataclass(frozen=True, kw_only=True)
class LinkRow:
    """What one rank sent and received over its links in a usual call of the program `title`, or `why` nobody knows."""

    title: str
    rank: int
    sent_bytes: int | None
    received_bytes: int | None
    least_bytes: float
    why: str


def link_rows(reports: Mapping[str, EvaluationReport]) -> list[LinkRow]:
    """Every rank of every report at its recorded size; empty without GPUs."""
    return [
        row
        for title, report in reports.items()
        if profiles.get(report.profile).gpu is not None and report.timeline is not None
        for row in _link_rows(title, report)
    ]


def _link_rows(title: str, report: EvaluationReport) -> Iterator[LinkRow]:
    links, whole = recorded_links(report), counted_links(report)
    for rank in range(report.world_size):
        yield LinkRow(
            title=title,
            rank=rank,
            sent_bytes=whole.sent_bytes[rank] if whole is not None else None,
            received_bytes=whole.received_bytes[rank] if whole is not None else None,
            least_bytes=links.least_bytes if links is not None else 0.0,
            why=NO_COUNTERS if whole is None else "",
        )


def _copied(recorded: Recorded) -> dict[tuple[int, int], int] | None:
    """The bytes of copies between GPUs by both ends; None where a copy lacks one."""
    names, found = recorded.call.names, dict[tuple[int, int], int]()
    copies = [span for rank in recorded.call.ranks for span in rank.spans if span.kind is SpanKind.COPY]
    for span in copies:
        copy = names[span.name]
        if copy.source is not None and copy.target is not None:
            found[copy.source, copy.target] = found.get((copy.source, copy.target), 0) + span.bytes
        elif call_parts.part(span.kind, copy.name, primitives=recorded.primitives) is Part.WIRE:
            return None
    return found
