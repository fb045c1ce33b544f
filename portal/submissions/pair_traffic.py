"""How many bytes a call moves from each rank to each other one, as far as anything shows it."""

from collections.abc import Iterator
from dataclasses import dataclass

from evaluator.contract import EvaluationReport, LinkTraffic, SpanKind
from evaluator.judging import call_parts
from evaluator.judging.call_parts import Part
from portal.submissions.timelines import Recorded

NO_COUNTERS = "UNAVAILABLE: the links' counters were not read"
NO_PAIRS = "UNAVAILABLE: the links count bytes per GPU, and NCCL's kernels and stores to a peer name no pair"


@dataclass(frozen=True, kw_only=True)
class PairTraffic:
    """From one rank to another: `bytes` in a usual call, by the links' counters, or `why` they are not known.

    `copied_bytes` is what copies that the sender started moved between the two in the recorded call. They may write to
    the receiver or read from it: the profiler names no direction. `least_bytes` is the cost model's least for the
    busiest rank.
    """

    sender: int
    receiver: int
    bytes: int | None
    why: str
    copied_bytes: int | None
    least_bytes: float


def pair_traffic(report: EvaluationReport, recorded: Recorded) -> list[PairTraffic]:
    """Every pair of ranks at the recorded size, in both directions; empty without GPUs."""
    if recorded.gpu is None or report.timeline is None:
        return []
    sizes = report.record.sizes if report.record is not None else ()
    links = next((one.links for one in sizes if one.size == report.timeline.size and one.links is not None), None)
    return list(_pairs(report.world_size, links, recorded))


def _pairs(world_size: int, links: LinkTraffic | None, recorded: Recorded) -> Iterator[PairTraffic]:
    is_read = links is not None and len(links.sent_bytes) == world_size
    for sender in range(world_size):
        for receiver in range(world_size):
            if sender == receiver:
                continue
            # With two ranks, what one sends the other receives.
            is_known = is_read and world_size == 2
            yield PairTraffic(
                sender=sender,
                receiver=receiver,
                bytes=links.sent_bytes[sender] if links is not None and is_known else None,
                why="" if is_known else NO_PAIRS if is_read else NO_COUNTERS,
                copied_bytes=_copied(recorded, sender) if world_size == 2 else None,
                least_bytes=links.least_bytes if links is not None else 0.0,
            )


def _copied(recorded: Recorded, number: int) -> int:
    """The bytes of one rank's copies between GPUs."""
    names = recorded.call.names
    return sum(
        span.bytes
        for rank in recorded.call.ranks
        for span in rank.spans
        if rank.rank == number
        and span.kind is SpanKind.COPY
        and call_parts.part(span.kind, names[span.name].name, primitives=recorded.primitives) is Part.WIRE
    )
