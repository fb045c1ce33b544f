"""Timing: blocks of reference, submission, submission, reference, kept for the record."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from evaluator.contract import Burst, CallRecord, GpuReading, ReferenceCall, SizeRecord, Wire
from evaluator.hardware.profiles import Profile
from evaluator.host.measure.evidence import SizeEvidence
from evaluator.host.ranks.oracle_group import ReferenceTime
from evaluator.judging.floors import floor
from problems.schema import Problem

_ELEMENT_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


def element_bytes(dtype: str) -> int:
    """Bytes of one element of the run's dtype."""
    return _ELEMENT_BYTES.get(dtype, 2)


@dataclass
class Series:
    """The timed calls of one size: per block, the calls of either side."""

    candidate: list[list[CallRecord]] = field(default_factory=list)
    reference: list[list[ReferenceTime]] = field(default_factory=list)
    watched_ns: int = 0
    busy_ns: int = 0
    gpus: tuple[GpuReading, ...] = ()
    processes: int = 0
    is_primed: bool = False
    kept_gaps_ns: list[int] = field(default_factory=list)
    kept_windows_ns: list[int] = field(default_factory=list)
    bursts: list[Burst] = field(default_factory=list)

    def record(
        self, at_size: SizeEvidence, *, floor_us: float | None, gang: int = 1, wire: Wire | None = None
    ) -> SizeRecord:
        """Every call at this size and which of them are the timed ones."""
        return SizeRecord(
            size=at_size.size,
            payload_bytes=at_size.payload_bytes,
            floor_us=floor_us,
            calls=tuple(at_size.records),
            blocks=tuple(tuple(call.number for call in block) for block in self.candidate),
            reference=tuple(
                tuple(
                    ReferenceCall(longest_ns=call.longest_ns, answer_ns=call.answer_ns, window_ns=call.window_ns)
                    for call in block
                )
                for block in self.reference
            ),
            watched_ns=self.watched_ns,
            busy_ns=self.busy_ns,
            gpus=self.gpus,
            processes=self.processes,
            gang=gang,
            wire=wire,
            is_primed=self.is_primed,
            kept_gaps_ns=tuple(self.kept_gaps_ns),
            kept_windows_ns=tuple(self.kept_windows_ns),
            bursts=tuple(self.bursts),
        )


def joined(first: SizeRecord, rest: SizeRecord) -> SizeRecord:
    """A series that was run in two parts by one gang, as one."""
    return msgspec.structs.replace(
        first,
        payload_bytes=max(first.payload_bytes, rest.payload_bytes),
        calls=first.calls + rest.calls,
        blocks=first.blocks + rest.blocks,
        reference=first.reference + rest.reference,
        watched_ns=first.watched_ns + rest.watched_ns,
        busy_ns=first.busy_ns + rest.busy_ns,
        gpus=first.gpus + rest.gpus,
        processes=max(first.processes, rest.processes),
        kept_gaps_ns=first.kept_gaps_ns + rest.kept_gaps_ns,
        kept_windows_ns=first.kept_windows_ns + rest.kept_windows_ns,
        bursts=first.bursts + rest.bursts,
    )


def run_block(
    series: Series,
    *,
    calls: int,
    time_candidate: Callable[[], CallRecord],
    time_reference: Callable[[], ReferenceTime],
    time_as_rank: Callable[[], ReferenceTime] | None,
    busy_ns: Callable[[], int] | None,
) -> None:
    """One block A B B A, `calls` calls a leg; the submission's processor time is read around A where `busy_ns` is.

    With `time_as_rank` the block ends with a call of the reference whose ranks do what sandbox ranks do around a call:
    it is not timed, but shows how long the host waits besides.
    """

    def leg() -> list[ReferenceTime]:
        if busy_ns is None:
            return [time_reference() for _ in range(calls)]
        start, used = time.monotonic_ns(), busy_ns()
        times = [time_reference() for _ in range(calls)]
        series.busy_ns += busy_ns() - used
        series.watched_ns += time.monotonic_ns() - start
        return times

    ours = leg()
    theirs = [time_candidate() for _ in range(2 * calls)]
    series.reference.append(ours + leg())
    series.candidate.append(theirs)
    if time_as_rank is not None:
        kept = time_as_rank()
        series.kept_gaps_ns.append(kept.answer_ns - kept.longest_ns)
        series.kept_windows_ns.append(kept.window_ns - kept.longest_ns)


def secret_subset(total: int, wanted: int) -> frozenset[int]:
    """Which `wanted` of `total` calls or blocks are looked at, unknown until they are drawn."""
    return frozenset(secrets.SystemRandom().sample(range(total), min(total, wanted)))


def floor_us(problem: Problem, dims: dict[str, int], profile: Profile, dtype: str) -> float | None:
    """The roofline floor of one call; None on a practice board."""
    if profile.peaks is None:
        return None
    cost = problem.cost(dims, profile.world_size, element_bytes(dtype))
    return floor(cost, profile.peaks, dtype=dtype).us
