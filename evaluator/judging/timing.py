"""From recorded calls to a score and to what speaks against it. Pure: a report's record gives the same again."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median, median_high, median_low

from evaluator.contract import CallRecord, Finding, ReferenceCall, SizeRecord, SizeTiming, Timing, TimingRules, Verdict
from evaluator.judging import statistics
from evaluator.judging.checks import NOTHING_OFF, Check

_LEAST_US = 1.0
"""No call takes less: calling a Python function alone does not."""

_SAME = 0.04
"""Blocks this close to an interval count as inside.

Five judgements of one submission lay 3.0 and 3.2 % apart on 2 and 4 H200 (21 November 2026): with 2 %, at least three
of seven honest submissions on 4 were run again in full.
"""

_DRIFT_BLOCKS = 8
"""Fewer are too few to tell a drift from scatter."""

_LEAST_BURSTS = 2
"""Fewer of either length tell nothing; and there have to be two lengths."""

_NEEDS_A_SERIES = frozenset({Verdict.BASELINE_UNSTABLE, Verdict.TIMING_INCONSISTENT})
"""What a few blocks are too few to say, where claims are taken block by block."""

_HELD_BACK = frozenset({"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"})
"""Reasons for low clocks that make times of a GPU worthless."""

_BUSY_NS = 10_000_000
"""Processor time that nobody is blamed for beside what the rules allow: it is counted in ticks of 10 ms."""


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


def ratios(record: SizeRecord, rules: TimingRules) -> tuple[float, ...]:
    """Reference over candidate per block: the sum of its calls over what the candidate's calls count as together."""
    pairs = zip(record.reference, timed_blocks(record), strict=True)
    return tuple(sum(call.longest_ns for call in ours) / max(1, _together_ns(theirs, rules)) for ours, theirs in pairs)


def _together_ns(block: Sequence[CallRecord], rules: TimingRules) -> float:
    """What the calls of a block count as: their sum, or as many medians where that is more.

    What speaks against claims is taken from medians, which a few disturbed calls leave alone: so a few claims that are
    too short may not count either.
    """
    claims = [call.longest_ns for call in block]
    return max(sum(claims), len(claims) * median(claims)) if rules.by_block else sum(claims)


def claimed_us(record: SizeRecord, rules: TimingRules) -> float:
    """What a call takes by its ranks' claims, as the score takes it: the median over blocks."""
    blocks = timed_blocks(record)
    if not rules.by_block:
        return median(call.longest_ns for block in blocks for call in block) / 1000
    return median_low([_together_ns(block, rules) / len(block) for block in blocks]) / 1000


def _typical_us(record: SizeRecord, rules: TimingRules, of: Callable[[CallRecord], float]) -> float:
    """The median of `of` over calls, in us: over blocks of the blocks' own, the higher ones, so that no half hides."""
    blocks = timed_blocks(record)
    if not rules.by_block:
        return median(of(call) for block in blocks for call in block) / 1000
    return median_high([median_high(map(of, block)) for block in blocks]) / 1000


def gap_us(record: SizeRecord, rules: TimingRules) -> float:
    """The time between the claimed end of a timed call and the moment the host heard of it."""
    return _typical_us(record, rules, lambda call: call.answer_ns - call.longest_ns)


def halves(blocks: Sequence[Sequence[CallRecord | ReferenceCall]]) -> tuple[float, float]:
    """The time of a call in the first and in the last half of a series, in us: medians of the blocks' medians."""
    medians = [median(call.longest_ns for call in block) / 1000 for block in blocks]
    half = max(1, len(medians) // 2)
    return median(medians[:half]), median(medians[-half:])


def _are_apart(blocks: Sequence[Sequence[ReferenceCall]]) -> bool:
    """Whether every block of one half of a series took longer than every block of the other."""
    medians = [median(call.longest_ns for call in block) for block in blocks]
    first, last = medians[: len(medians) // 2], medians[-(len(medians) // 2) :]
    return min(first) > max(last) or min(last) > max(first)


def band_us(record: SizeRecord, rules: TimingRules) -> float:
    """How long that time may be: what it is for the reference, what the copying of the payload may take, and a rest.

    The reference's is taken from the calls in which its ranks did what sandbox ranks do, where there are such calls.
    """
    return _reference_gap_us(record) + record.payload_bytes / rules.band_bytes_us + rules.band_us


def _reference_gap_us(record: SizeRecord) -> float:
    gaps = record.kept_gaps_ns or [call.answer_ns - call.longest_ns for block in record.reference for call in block]
    return median(gaps) / 1000


def outside_us(record: SizeRecord, rules: TimingRules) -> float:
    """The time of a timed call's window that its claim leaves: reading, line-up, storing, answering."""
    return _typical_us(record, rules, lambda call: call.window_ns - call.longest_ns)


def outside_band_us(record: SizeRecord, rules: TimingRules) -> float | None:
    """How long that may be, from the reference's as in `band_us`; None for reports in which it has no windows."""
    gaps = record.kept_windows_ns or [
        call.window_ns - call.longest_ns for block in record.reference for call in block if call.window_ns is not None
    ]
    if not gaps:
        return None
    return median(gaps) / 1000 + record.payload_bytes / rules.band_bytes_us + rules.band_us + rules.reading_us


def burst_us(record: SizeRecord, rules: TimingRules) -> float | None:
    """What a further call of a burst took: the shortest of the long bursts, less a single one's median, over the calls.

    None where there were too few. What a burst takes in any case, for `GO` and the answer, falls out. A burst that took
    longer than another was disturbed: that speaks against nobody. A rank sees how long a burst is, and one that is slow
    in single ones would seem fast: these count for no more than the claim and what the reference's answers take beyond.
    """
    answers: dict[int, list[int]] = {}
    for burst in record.bursts:
        answers.setdefault(burst.calls, []).append(burst.answer_ns)
    if len(answers) < _LEAST_BURSTS or min(map(len, answers.values())) < _LEAST_BURSTS:
        return None
    few, many = min(answers), max(answers)
    least_us = min(median(answers[few]) / 1000, few * claimed_us(record, rules) + _reference_gap_us(record))
    return (min(answers[many]) / 1000 - least_us) / (many - few)


def burst_band_us(record: SizeRecord, call_us: float, rules: TimingRules) -> float | None:
    """How much that may be; None where it is not judged.

    Lining up, launching and copying take longer where processors are slow, and so do short calls themselves: the rest
    that is allowed grows with the claim up to its most.
    """
    if rules.burst_us is None or not record.bursts:
        return None
    rest_us = min(rules.burst_us + call_us, rules.burst_most_us)
    return call_us * rules.burst_ratio + rest_us + record.payload_bytes / rules.burst_bytes_us


def size_timing(record: SizeRecord, rules: TimingRules) -> SizeTiming:
    """Candidate and reference at one size."""
    calls = [call for block in timed_blocks(record) for call in block]
    candidate = statistics.summarise([call.longest_ns / 1000 for call in calls])
    per_rank = zip(*(call.claimed_ns for call in calls), strict=True)
    return SizeTiming(
        size=record.size,
        candidate=candidate,
        baseline=statistics.summarise([call.longest_ns / 1000 for block in record.reference for call in block]),
        ratios=ratios(record, rules),
        rank_medians_us=tuple(median(claims) / 1000 for claims in per_rank),
        floor_us=record.floor_us,
        window_us=median(call.window_ns for call in calls) / 1000,
        gap_us=gap_us(record, rules),
        band_us=band_us(record, rules),
        outside_us=outside_us(record, rules),
        outside_band_us=outside_band_us(record, rules),
        burst_us=burst_us(record, rules),
        burst_band_us=burst_band_us(record, claimed_us(record, rules), rules),
    )


def conclude(
    records: Sequence[SizeRecord], rules: TimingRules, *, without: frozenset[Check] = NOTHING_OFF
) -> tuple[Timing, list[Finding]]:
    """The timing of all sizes, and what speaks against it."""
    sizes = [size_timing(record, rules) for record in records]
    blocks = statistics.combine_sizes([timing.ratios for timing in sizes])
    interval = statistics.interval(blocks)
    timing = Timing(score=interval.score, low=interval.low, high=interval.high, blocks=blocks, sizes=tuple(sizes))
    judges = {
        Check.WINDOW: _outside_band,
        Check.BURST: _outpaced,
        Check.SECOND_TIMER: _unsettled,
        Check.IDLE: _busy,
        Check.FLOOR: _below_floor,
        Check.DRIFT: _unsteady,
    }
    findings = [
        finding
        for check, judge in judges.items()
        if check not in without
        for record, size in zip(records, sizes, strict=True)
        for finding in judge(record, size, rules)
    ]
    return timing, findings


def settle(
    records: Sequence[SizeRecord], rules: TimingRules, *, without: frozenset[Check] = NOTHING_OFF
) -> tuple[Timing, list[Finding]]:
    """The timing that counts and what speaks against it, where a second gang may have run the series, or part of it.

    Where the second ran all of it, because the ratios differed or the first left its claims in doubt, a size counts as
    the gang had it whose claims are in no doubt there, or else as the slower had it. A doubt stands where both leave
    it: a host that was busy for a while leaves it once.
    """
    first = [record for record in records if record.gang == 1]
    again = [record for record in records if record.gang != 1]
    timing, findings = conclude(first, rules, without=without)
    if not again:
        return timing, findings
    other, against = conclude(again, rules, without=without)
    if len(other.blocks) < len(timing.blocks):
        # A few blocks are too few to judge the reference's drift by, or claims that the first has left in no doubt.
        passed_over = _NEEDS_A_SERIES if rules.by_block else {Verdict.BASELINE_UNSTABLE}
        return timing, [*findings, *(item for item in against if item.verdict not in passed_over)]
    if not rules.by_block:
        return min(timing, other, key=lambda each: each.low), [*findings, *against]
    doubted = _doubted(findings) & _doubted(against)
    counted = [_counted(pair, _doubted(findings), _doubted(against), rules) for pair in zip(first, again, strict=True)]
    return conclude(counted, rules, without=without)[0], [
        item
        for item in (*findings, *against)
        if item.verdict is not Verdict.TIMING_INCONSISTENT or item.size in doubted
    ]


def _counted(
    pair: tuple[SizeRecord, SizeRecord], doubts: set[str | None], others: set[str | None], rules: TimingRules
) -> SizeRecord:
    """Which gang's series counts at a size."""
    first, again = pair
    if (first.size in doubts) != (again.size in others):
        return again if first.size in doubts else first
    return min(pair, key=lambda record: statistics.interval(ratios(record, rules)).low)


def has_doubts(findings: Sequence[Finding]) -> bool:
    """Whether anything speaks against the claims of a series: then a second gang runs all of it."""
    return bool(_doubted(findings))


def _doubted(findings: Sequence[Finding]) -> set[str | None]:
    """The sizes at which something speaks against the claims."""
    return {item.size for item in findings if item.verdict is Verdict.TIMING_INCONSISTENT}


def agrees(again: Sequence[SizeRecord], first: Timing, rules: TimingRules) -> bool:
    """Whether a few blocks in a second gang reach into the first's interval, or close to it.

    All of them have to lie outside: on a node a block in ten is disturbed for a moment, and a submission that behaves
    otherwise in one gang than in another does so in every block.
    """
    blocks = conclude(again, rules)[0].blocks
    return min(blocks) <= first.high * (1 + _SAME) and max(blocks) >= first.low * (1 - _SAME)


def _contradicted(size: str, message: str) -> Finding:
    """A claim that something seen from outside speaks against."""
    return Finding(verdict=Verdict.TIMING_INCONSISTENT, message=message, size=size)


def _outside_band(_record: SizeRecord, size: SizeTiming, _rules: TimingRules) -> Iterator[Finding]:
    gap, band = size.gap_us or 0.0, size.band_us or 0.0
    if gap > band or size.candidate.median_us < _LEAST_US:
        yield _contradicted(
            size.size,
            f"calls of {size.candidate.median_us:.1f} us at size {size.size}, as the ranks say, were answered "
            f"{gap:.1f} us later on the host's clock; bookkeeping can take {band:.1f} us, and no call less than "
            f"{_LEAST_US:g} us",
        )
    elif size.outside_band_us is not None and (size.outside_us or 0.0) > size.outside_band_us:
        yield _contradicted(
            size.size,
            f"calls of {size.candidate.median_us:.1f} us at size {size.size}, as the ranks say, were answered "
            f"{size.candidate.median_us + (size.outside_us or 0.0):.1f} us after their contents could be read; "
            f"reading and bookkeeping can take {size.outside_band_us:.1f} us: work was done before the clock ran",
        )


def _outpaced(_record: SizeRecord, size: SizeTiming, _rules: TimingRules) -> Iterator[Finding]:
    if size.burst_us is not None and size.burst_band_us is not None and size.burst_us > size.burst_band_us:
        yield _contradicted(
            size.size,
            f"calls of {size.candidate.median_us:.1f} us at size {size.size}, as the ranks say, took "
            f"{size.burst_us:.1f} us each on the host's clock where they followed one another; that can be "
            f"{size.burst_band_us:.1f} us",
        )


def _unsettled(record: SizeRecord, size: SizeTiming, rules: TimingRules) -> Iterator[Finding]:
    if rules.settle_ratio is None:
        return
    settled_us = _typical_us(record, rules, lambda call: max(call.settled_ns))
    call_us = _typical_us(record, rules, lambda call: call.longest_ns)
    if settled_us > rules.settle_ratio * call_us and settled_us - call_us > rules.settle_jitter_us:
        yield _contradicted(
            size.size,
            f"the devices were idle {settled_us - call_us:.1f} us after calls of {call_us:.1f} us had ended "
            f"in stream order at size {size.size}: work was left on streams that the current one does not wait for",
        )


def _busy(record: SizeRecord, _size: SizeTiming, rules: TimingRules) -> Iterator[Finding]:
    if rules.busy_cores is not None and record.busy_ns > rules.busy_cores * record.watched_ns + _BUSY_NS:
        busy_cores = record.busy_ns / max(record.watched_ns, 1)
        yield _contradicted(
            record.size,
            f"the submission's processes used {record.busy_ns / 1e6:.0f} ms of processor time in the "
            f"{record.watched_ns / 1e6:.0f} ms for which they were watched while the reference was timed at size "
            f"{record.size}, which keeps {busy_cores:.2f} processors busy: all ranks together may keep "
            f"{rules.busy_cores:g} busy between calls",
        )


def _below_floor(record: SizeRecord, size: SizeTiming, rules: TimingRules) -> Iterator[Finding]:
    call_us = claimed_us(record, rules)
    if size.floor_us is not None and call_us < size.floor_us:
        message = f"{call_us:.1f} us at size {size.size} is below the floor of {size.floor_us:.1f} us"
        yield Finding(verdict=Verdict.BELOW_FLOOR, message=message, size=size.size)


def _unsteady(record: SizeRecord, size: SizeTiming, rules: TimingRules) -> Iterator[Finding]:
    yield from _drift(record, size, rules)
    yield from _throttled(record, rules)


def _throttled(record: SizeRecord, rules: TimingRules) -> Iterator[Finding]:
    """Whether a GPU was held back for heat or for want of power; a power cap by software is how they always run."""
    for reading in record.gpus:
        held_back = sorted(_HELD_BACK & set(reading.throttled_by))
        if held_back and rules.baseline_drift is not None:
            message = (
                f"GPU {reading.gpu} was held back ({', '.join(held_back)}) {reading.moment} the timed calls at size "
                f"{record.size}: {reading.sm_mhz} MHz, {reading.celsius} C, {reading.watts:.0f} W"
            )
            yield Finding(verdict=Verdict.BASELINE_UNSTABLE, message=message, size=record.size)


def _drift(record: SizeRecord, _size: SizeTiming, rules: TimingRules) -> Iterator[Finding]:
    """Whether the reference took longer in one half of a series than in the other, and the submission did not.

    A host that is slower for a while, to both, leaves the ratios of the blocks as they are. And times that follow from
    contents, or from a host that launches many kernels, scatter: halves that scatter into each other are no drift (of
    12 blocks that are alike, all six of one half lie on one side of the other's once in 462 series).
    """
    if rules.baseline_drift is None or len(record.reference) < _DRIFT_BLOCKS or not _are_apart(record.reference):
        return
    first_us, last_us = halves(record.reference)
    their_first_us, their_last_us = halves(timed_blocks(record))
    drift = abs(first_us / last_us - 1)
    apart = abs(first_us / last_us * their_last_us / max(their_first_us, 1e-3) - 1)
    is_alone = apart > rules.baseline_drift
    if drift > rules.baseline_drift and is_alone and abs(first_us - last_us) > rules.baseline_jitter_us:
        message = (
            f"the reference drifted from {first_us:.1f} to {last_us:.1f} us ({drift:.1%}) at size {record.size} "
            "while it was measured"
        )
        yield Finding(verdict=Verdict.BASELINE_UNSTABLE, message=message, size=record.size)
