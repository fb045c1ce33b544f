"""Records of timed series as a judge writes them, made of numbers alone."""

import random

from evaluator.contract import (
    Backend,
    CallKind,
    CallRecord,
    ClockKind,
    EvaluationReport,
    Finding,
    Mode,
    Record,
    ReferenceCall,
    SizeRecord,
    TimingRules,
    Verdict,
)
from evaluator.judging import timing

RULES = TimingRules(
    clock=ClockKind.GATE,
    resolution_us=2.0,
    start_share=0.01,
    start_us=0.5,
    busy_cores=0.1,
    judges_throttling=True,
)

EMPTY_US = 60.0
"""What an empty call takes in the reference's ranks, 20 us of it without any bytes."""

SANDBOX_US = 3.0
"""How much longer it takes in a sandbox."""


def series(
    *,
    candidate_us: float = 100.0,
    reference_us: tuple[float, ...] = (200.0,) * 12,
    size: str = "tiny",
    group_number: int = 1,
    seed: int = 1,
    floor_us: float | None = None,
    busy_ms: float = 0.0,
) -> SizeRecord:
    """Four calls a block on two ranks, with net times as given; rank 1 is the slower one, and calls differ by 1 %."""
    dice = random.Random(seed)
    return SizeRecord(
        size=size,
        payload_bytes=0,
        floor_us=floor_us,
        calls=tuple(_call(number, candidate_us * dice.uniform(0.99, 1.01)) for number in range(4 * len(reference_us))),
        group_number=group_number,
        blocks=tuple(tuple(range(4 * block, 4 * block + 4)) for block in range(len(reference_us))),
        reference=tuple(
            (ReferenceCall(time_ns=round(1000 * (EMPTY_US + time_us)), claimed_ns=round(900 * time_us)),) * 4
            for time_us in reference_us
        ),
        queues=True,
        reference_queues=True,
        empty_ns=(round(1000 * EMPTY_US),) * 5,
        bare_ns=(round(1000 * (20.0 + SANDBOX_US)),) * 5,
        reference_bare_ns=(20_000,) * 5,
        watched_ns=1_000_000_000,
        busy_ns=round(busy_ms * 1e6),
    )


def _call(number: int, net_us: float) -> CallRecord:
    empty_us = EMPTY_US + SANDBOX_US
    return CallRecord(
        number=number,
        kind=CallKind.PLAIN,
        draw=number,
        near=None,
        is_reused=False,
        is_checked=True,
        delays_us=(0, 0),
        done_ns=(round(1000 * (empty_us + 0.9 * net_us)), round(1000 * (empty_us + net_us))),
        head_ns=900_000,
        has_queued=True,
        claimed_ns=(round(800 * net_us), round(900 * net_us)),
        marks=("0" * 16, "1" * 16),
        max_error=0.1,
    )


def report_of(*records: SizeRecord) -> EvaluationReport:
    """A report over `records`, as the judge writes it."""
    found, against = timing.conclude(records, RULES)
    verdict = against[0].verdict if against else Verdict.PASSED
    return EvaluationReport(
        evaluation_id="synthetic",
        problem="allreduce",
        revision="0",
        source_digest="0",
        backend=Backend.PYTORCH,
        profile="cpux2",
        world_size=2,
        mode=Mode.RANKED,
        dtype="bfloat16",
        verdict=verdict,
        message="",
        findings=(Finding(verdict=verdict, message=""),),
        timing=None if against else found,
        record=Record(rules=RULES, sizes=records),
    )
