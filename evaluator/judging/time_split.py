"""Where the time of a recorded call went: compute, wire, both at once, neither; and which gap to the floor is largest.

All of it rests on the profiler inside the ranks, so no score and no verdict uses it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from evaluator.contract import CallTimeline, Primitive, Span
from evaluator.judging.call_advice import CallAnalysis, advice
from evaluator.judging.call_parts import Gap, LowerBound, Part, RankSplit, collective_waits, part, rank_split, window


@dataclass(frozen=True, kw_only=True)
class Split:
    """Where a call's time went on every rank, with advice.

    `gaps_us` are means over the ranks of what a perfect call would not take; `largest` is the first of them. `advice`
    is that one as a sentence. `surplus_us` is how much longer the call took than usual ones, and is in no gap.
    `wire_bytes_s` and `flops_s` are the floor's least work over the time in which it was done; None where nothing of
    the kind ran, or no floor applies.
    """

    ranks: tuple[RankSplit, ...]
    gaps_us: dict[Gap, float]
    surplus_us: float
    largest: Gap
    advice: str
    wire_bytes_s: float | None
    flops_s: float | None

    @property
    def accounted(self) -> float:
        """The share of the call in which something is known to run, on average over the ranks."""
        return 1 - fmean(rank.idle_us for rank in self.ranks) / max(1e-9, self.ranks[0].call_us)


_OF_THE_RECORDER = (Gap.IDLE, Gap.WAIT, Gap.MIXED)
"""What a recorder lengthens: it delays launches, so that devices are idle, and ranks wait for each other, in
collectives or in kernels of their own. The first is shortened first."""


def split(
    call: CallTimeline,
    *,
    primitives: Iterable[Primitive] = (),
    least: LowerBound | None = None,
    usual_us: float | None = None,
    carried_bytes: int | None = None,
) -> Split | None:
    """Where the time of `call` went; None where no rank left a span.

    On GPUs the call lasts from the first work on any device to the last, for launches wait behind a gate until then. On
    CPU ranks it lasts from the first rank's entry to the last one's return.

    Args:
        call: what ran when on every rank.
        primitives: what the program was seen to use.
        least: the floor's terms; None where no floor applies.
        usual_us: what calls take that nobody records; None where it is not known. What the recorded call took beyond
            it is the recorder's, and shortens idle time and waits.
        carried_bytes: what the busiest rank sends over its links in a usual call; None where nobody counted.
    """
    if call.is_empty:
        return None
    known = frozenset(primitives)
    is_on_device, whole = call.is_on_device, window(call)

    def part_of(span: Span) -> Part | None:
        if is_on_device and not span.kind.is_on_device:
            return None
        return part(span.kind, call.names[span.name].name, primitives=known)

    waits = collective_waits(call, primitives=known)
    ranks = tuple(rank_split(rank, part_of, whole, waits.get(rank.rank, [])) for rank in call.ranks)
    surplus_us = max(0.0, (whole[1] - whole[0]) / 1000 - usual_us) if usual_us is not None else 0.0
    gaps_us = _without_recorder(_gaps(ranks, least), surplus_us)
    largest = max(gaps_us, key=lambda gap: gaps_us[gap])
    analysis = CallAnalysis(
        call=call,
        ranks=ranks,
        part_of=part_of,
        waits=waits,
        window=whole,
        least=least,
        is_on_device=is_on_device,
        carried_bytes=carried_bytes,
    )
    wire_us = fmean(rank.wire_us + rank.both_us + rank.mixed_us for rank in ranks)
    work_us = fmean(rank.compute_us + rank.both_us + rank.mixed_us for rank in ranks)
    return Split(
        ranks=ranks,
        gaps_us=gaps_us,
        surplus_us=surplus_us,
        largest=largest,
        advice=advice(analysis, largest),
        wire_bytes_s=least.wire_bytes / wire_us * 1e6 if least and wire_us and least.wire_bytes else None,
        flops_s=least.flops / work_us * 1e6 if least and work_us and least.flops else None,
    )


def _without_recorder(gaps_us: dict[Gap, float], surplus_us: float) -> dict[Gap, float]:
    """The gaps, less what a usual call does not have."""
    found, left_us = dict(gaps_us), surplus_us
    for gap in _OF_THE_RECORDER:
        found[gap] = max(0.0, gaps_us[gap] - left_us)
        left_us -= gaps_us[gap] - found[gap]
    return found


def _gaps(ranks: Sequence[RankSplit], least: LowerBound | None) -> dict[Gap, float]:
    """The time beyond a perfect call, by cause; the floor's terms count where that kind of work was done."""
    idle_us = fmean(rank.idle_us for rank in ranks)
    wire_us = fmean(rank.wire_us + rank.both_us for rank in ranks)
    work_us = fmean(rank.compute_us + rank.both_us for rank in ranks)
    mixed_us = fmean(rank.mixed_us for rank in ranks)
    least_wire_us, least_work_us = (least.wire_us, least.work_us) if least else (0.0, 0.0)
    left_us = max(least_wire_us - wire_us, least_work_us - work_us, 0.0)
    return {
        Gap.IDLE: idle_us,
        Gap.WAIT: fmean(rank.wait_us for rank in ranks),
        Gap.WIRE: max(0.0, wire_us - least_wire_us),
        Gap.WORK: max(0.0, work_us - least_work_us),
        Gap.MIXED: max(0.0, mixed_us - left_us),
    }
