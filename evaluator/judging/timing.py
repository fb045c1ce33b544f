"""From recorded calls to a score and to findings about times. Pure: a report's record gives the same result again.

Every time is on the host's clock and contains the time of an empty call. A net time is without it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from evaluator.contract import (
    SCORE_RULE,
    CallRecord,
    ClockKind,
    Finding,
    ReferenceCall,
    SizeRecord,
    SizeTiming,
    Timing,
    TimingRules,
    Verdict,
)
from evaluator.judging import statistics
from evaluator.judging.checks import NOTHING_OFF, Check
from evaluator.judging.statistics import Estimate

_EMPTY_SHARE = 0.1
"""A call may be shorter than an empty one by this share of it: empty calls on a busy host differ so much."""

_BUSY_NS = 10_000_000
"""Processor time that is tolerated beyond the rules, because it is counted in ticks of 10 ms."""


def timed_blocks(record: SizeRecord) -> list[list[CallRecord]]:
    """The timed calls, block by block.

    Raises:
        ValueError: a block names a call that is not recorded.
    """
    calls = {call.number: call for call in record.calls}
    try:
        return [[calls[number] for number in block] for block in record.blocks]
    except KeyError as error:
        raise ValueError(f"size {record.size}: block with call {error}, which is not recorded") from None


def empty_us(record: SizeRecord) -> float:
    """The time of an empty call in the reference ranks; 0 where none was made."""
    return _median_us(record.empty_ns)


def candidate_empty_us(record: SizeRecord) -> float:
    """The time of an empty call in the sandbox ranks: the reference's, plus the difference of their bare calls."""
    return empty_us(record) + _median_us(record.bare_ns) - _median_us(record.reference_bare_ns)


def forgeable_us(record: SizeRecord) -> float:
    """The part of an empty call that grows with its bytes: unsealing inputs, and fingerprinting outputs."""
    return max(0.0, empty_us(record) - _median_us(record.reference_bare_ns))


def _median_us(times_ns: Sequence[int]) -> float:
    return median(times_ns) / 1000 if times_ns else 0.0


def net_us(time_ns: int, *, empty_us: float, rules: TimingRules) -> float:
    """The time of a call in us without that of an empty call; at least the resolution."""
    return max(rules.resolution_us, time_ns / 1000 - empty_us)


@dataclass(frozen=True)
class NetSeries:
    """The net times of one worker group's series at one size in microseconds, block by block."""

    record: SizeRecord
    rules: TimingRules

    @cached_property
    def candidate(self) -> list[list[float]]:
        """The submission's calls, block by block; raises ValueError where one is not recorded."""
        return self._nets(timed_blocks(self.record), candidate_empty_us(self.record))

    @cached_property
    def reference(self) -> list[list[float]]:
        """The reference's calls, block by block."""
        return self._nets(self.record.reference, empty_us(self.record))

    def _nets(self, blocks: Iterable[Sequence[CallRecord | ReferenceCall]], empty: float) -> list[list[float]]:
        return [[net_us(call.time_ns, empty_us=empty, rules=self.rules) for call in block] for block in blocks]

    @cached_property
    def ratios(self) -> tuple[float, ...]:
        """Median of the reference over median of the candidate, per block."""
        pairs = zip(self.reference, self.candidate, strict=True)
        return tuple(median(ours) / median(theirs) for ours, theirs in pairs)


def _flat(blocks: Iterable[Sequence[float]]) -> list[float]:
    return [value for block in blocks for value in block]


def _start_sd(times_us: Sequence[float], rules: TimingRules, *, queues: bool) -> float:
    """Standard deviation of a side's time between starts of its ranks, as a share of the time."""
    share = rules.start_share if queues or rules.clock is not ClockKind.GATE else rules.waiting_share
    return max(share, rules.start_us / median(times_us))


def _estimate(groups: Sequence[NetSeries], rules: TimingRules) -> Estimate:
    return statistics.estimate(
        [[math.log(ratio) for ratio in net.ratios] for net in groups],
        reference_sd=_start_sd(
            _flat(block for net in groups for block in net.reference), rules, queues=groups[0].record.reference_queues
        ),
        candidate_sd=_start_sd(
            _flat(block for net in groups for block in net.candidate), rules, queues=groups[0].record.queues
        ),
    )


def may_stop(records: Sequence[SizeRecord], rules: TimingRules) -> bool:
    """Whether the series at one size may end: its interval is narrow, or more blocks would hardly narrow it.

    Args:
        records: the records of this size, one for each worker group.
        rules: the profile's.
    """
    blocks = sum(len(record.blocks) for record in records)
    # An interval needs two blocks; the rule itself requires more.
    return blocks > 1 and statistics.is_precise_enough(
        _estimate([NetSeries(each, rules) for each in records], rules), blocks=blocks
    )


def _size_timing(groups: Sequence[NetSeries], found: Estimate) -> SizeTiming:
    """Candidate and reference at one size, over all worker groups."""
    records = [net.record for net in groups]
    interval = found.interval
    return SizeTiming(
        size=records[0].size,
        candidate=statistics.summarise(_flat(block for net in groups for block in net.candidate)),
        baseline=statistics.summarise(_flat(block for net in groups for block in net.reference)),
        ratios=tuple(ratio for net in groups for ratio in net.ratios),
        rank_medians_us=_rank_medians_us(groups),
        score=interval.score,
        low=interval.low,
        high=interval.high,
        floor_us=records[0].floor_us,
        empty_us=median(map(empty_us, records)),
        candidate_empty_us=median(map(candidate_empty_us, records)),
        forgeable_us=median(map(forgeable_us, records)),
        claimed_us=_claimed_us(records),
        looped_us=_first_us(record.looped_ns for record in records),
        baseline_looped_us=_first_us(record.reference_looped_ns for record in records),
    )


def _rank_medians_us(groups: Sequence[NetSeries]) -> tuple[float, ...]:
    """Each rank's median net time over all worker groups."""
    calls = [
        [net_us(done, empty_us=candidate_empty_us(net.record), rules=net.rules) for done in call.done_ns]
        for net in groups
        for block in timed_blocks(net.record)
        for call in block
    ]
    return tuple(median(rank) for rank in zip(*calls, strict=True))


def _claimed_us(records: Sequence[SizeRecord]) -> float | None:
    """The median of the slowest ranks' self-reported times of a call; None where they report none."""
    calls = [call for record in records for block in timed_blocks(record) for call in block]
    claims = [max(call.claimed_ns) for call in calls if call.claimed_ns]
    return _median_us(claims) if claims else None


def _first_us(times_ns: Iterable[int | None]) -> float | None:
    return next((time / 1000 for time in times_ns if time is not None), None)


def conclude(
    records: Sequence[SizeRecord], rules: TimingRules, *, without: frozenset[Check] = NOTHING_OFF
) -> tuple[Timing, list[Finding]]:
    """The timing of all sizes from the records of all worker groups, and the findings about it.

    Raises:
        ValueError: there is no size, one has fewer than two blocks, or a block names a call that is not recorded.
    """
    nets: dict[str, list[NetSeries]] = {}
    for record in records:
        nets.setdefault(record.size, []).append(NetSeries(record, rules))
    estimates = {size: _estimate(groups, rules) for size, groups in nets.items()}
    sizes = [_size_timing(groups, estimates[size]) for size, groups in nets.items()]
    interval = statistics.combined(list(estimates.values())).interval
    timing = Timing(
        score=interval.score,
        low=interval.low,
        high=interval.high,
        blocks=_combined_blocks(list(nets.values())),
        sizes=tuple(sizes),
        coverage=statistics.COVERAGE,
        rule=SCORE_RULE,
    )
    return timing, [*_against_records(records, rules, without=without), *_against_sizes(sizes, rules, without=without)]


def _combined_blocks(sizes: Sequence[Sequence[NetSeries]]) -> tuple[float, ...]:
    """One value for each block that a worker group ran at all sizes."""
    by_group = [{net.record.group_number: net.ratios for net in groups} for groups in sizes]
    shared = sorted(set.intersection(*map(set, by_group)))
    return tuple(
        value for group in shared for value in statistics.combine_sizes([ratios_of[group] for ratios_of in by_group])
    )


def _against_records(
    records: Sequence[SizeRecord], rules: TimingRules, *, without: frozenset[Check]
) -> Iterator[Finding]:
    judges = {Check.EMPTY: before_empty, Check.IDLE: busy}
    for check, judge in judges.items():
        if check not in without:
            for record in records:
                yield from judge(record, rules)


def _against_sizes(sizes: Sequence[SizeTiming], rules: TimingRules, *, without: frozenset[Check]) -> Iterator[Finding]:
    if Check.FLOOR not in without:
        for size in sizes:
            yield from below_floor(size, rules)


def before_empty(record: SizeRecord, rules: TimingRules) -> Iterator[Finding]:
    """Findings where calls were shorter than empty calls: then something else unsealed or fingerprinted.

    Judged by the medians of blocks. As many blocks may be so short as the score leaves out at each end. Not judged on
    CPU ranks: they seal nothing, and a busy host delays one empty call more than another.
    """
    if not record.empty_ns or rules.clock is not ClockKind.GATE:
        return
    empty = candidate_empty_us(record)
    least_us = empty - max(rules.resolution_us, _EMPTY_SHARE * empty)
    medians = [median(call.time_ns for call in block) / 1000 for block in timed_blocks(record)]
    short = [time_us for time_us in medians if time_us < least_us]
    if len(short) > statistics.TRIM * len(medians):
        yield Finding(
            verdict=Verdict.TIMING_INCONSISTENT,
            message=f"in {len(short)} of {len(medians)} blocks at size {record.size} calls took "
            f"{median(short):.1f} us from the opening of the gate to the fingerprints of their outputs. Empty calls "
            f"take {empty:.1f} us, so inputs were unsealed or outputs fingerprinted elsewhere",
            size=record.size,
        )


def busy(record: SizeRecord, rules: TimingRules) -> Iterator[Finding]:
    """A finding where the submission's processes kept processors busy while the reference was timed."""
    if rules.busy_cores is not None and record.busy_ns > rules.busy_cores * record.watched_ns + _BUSY_NS:
        busy_cores = record.busy_ns / max(record.watched_ns, 1)
        yield Finding(
            verdict=Verdict.TIMING_INCONSISTENT,
            message=f"the submission's processes used {record.busy_ns / 1e6:.0f} ms of processor time in "
            f"{record.watched_ns / 1e6:.0f} ms while the reference was timed at size {record.size}: "
            f"{busy_cores:.2f} processors. All ranks together may use {rules.busy_cores:g} between calls",
            size=record.size,
        )


def below_floor(size: SizeTiming, rules: TimingRules) -> Iterator[Finding]:
    """A finding where the median is below the floor by more than the resolution."""
    call_us = size.candidate.median_us
    if size.floor_us is not None and call_us + rules.resolution_us < size.floor_us:
        message = f"{call_us:.1f} us at size {size.size} is below the floor of {size.floor_us:.1f} us"
        yield Finding(verdict=Verdict.BELOW_FLOOR, message=message, size=size.size)
