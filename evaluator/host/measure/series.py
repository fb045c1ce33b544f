"""The timed calls of one size, for the record."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from evaluator.contract import MOMENT_LEG, CallRecord, GpuReading, LinkTraffic, ReferenceCall, SizeRecord
from evaluator.hardware.profiles import Profile
from evaluator.host.clock.call_clock import CallTime
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure.evidence import SizeEvidence
from evaluator.host.measure.references import ReferenceClock, SteadySpeed
from evaluator.host.measure.schedule import Legs
from evaluator.host.ranks.reference_group import ReferenceTime
from evaluator.judging.floors import floor
from problems.spec.schema import Problem

_ELEMENT_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


def element_bytes(dtype: str) -> int:
    """Bytes of one element of the run's dtype."""
    return _ELEMENT_BYTES.get(dtype, 2)


@dataclass
class Series:
    """The timed calls of one size and group: per block, the calls of both sides, and the empty calls between them."""

    speed: SteadySpeed
    queues: bool = False
    candidate: list[list[CallRecord]] = field(default_factory=list)
    reference: list[list[ReferenceTime]] = field(default_factory=list)
    empty: list[CallTime] = field(default_factory=list)
    bare_ns: tuple[int, ...] = ()
    reference_bare_ns: tuple[int, ...] = ()
    looped_ns: int | None = None
    reference_looped_ns: int | None = None
    watched_ns: int = 0
    busy_ns: int = 0
    gpus: list[GpuReading] = field(default_factory=list)
    processes: int = 0

    def run_block(
        self,
        legs: Legs,
        *,
        time_candidate: Callable[[], CallRecord],
        clock: ReferenceClock,
        busy_ns: Callable[[], int] | None,
        watch: SlotWatch | None,
    ) -> None:
        """One block A B B A with an empty call at either end.

        With `busy_ns`, the submission's processor time is read around each A; with `watch`, the GPUs are.
        """
        self.empty.append(clock.empty())
        ours = self._leg(legs.reference, clock, busy_ns, watch)
        theirs = [time_candidate() for _ in range(legs.candidate)]
        self.reference.append(ours + self._leg(legs.reference, clock, busy_ns, watch))
        self.candidate.append(theirs)
        self.empty.append(clock.empty())

    def _leg(
        self, calls: int, clock: ReferenceClock, busy_ns: Callable[[], int] | None, watch: SlotWatch | None
    ) -> list[ReferenceTime]:
        seen: AbstractContextManager[None] = nullcontext()
        if watch is not None:
            seen = watch.around(f"{MOMENT_LEG} {len(self.candidate) + 1}", calls=calls, into=self.gpus)
        with seen, self._busy(busy_ns) if busy_ns is not None else nullcontext():
            return [clock.time() for _ in range(calls)]

    @contextmanager
    def _busy(self, busy_ns: Callable[[], int]) -> Iterator[None]:
        """Add up the time inside, and the processor time that the submission uses in it."""
        start, used = time.monotonic_ns(), busy_ns()
        yield
        self.busy_ns += busy_ns() - used
        self.watched_ns += time.monotonic_ns() - start

    def record(
        self, at_size: SizeEvidence, *, floor_us: float | None, group_number: int = 1, links: LinkTraffic | None = None
    ) -> SizeRecord:
        """Every call at this size, and which calls are timed."""
        reference = [call for block in self.reference for call in block]
        return SizeRecord(
            size=at_size.size,
            group_number=group_number,
            payload_bytes=at_size.payload_bytes,
            sealed_bytes=max((call.input_bytes for call in reference), default=0),
            marked_bytes=max((call.output_bytes for call in reference), default=0),
            floor_us=floor_us,
            calls=tuple(at_size.records),
            blocks=tuple(tuple(call.number for call in block) for block in self.candidate),
            reference=tuple(
                tuple(ReferenceCall(time_ns=call.time.longest_ns, claimed_ns=max(call.claims_ns)) for call in block)
                for block in self.reference
            ),
            queues=self.queues,
            reference_queues=self.speed.waits_for_queue,
            empty_ns=tuple(call.longest_ns for call in self.empty),
            bare_ns=self.bare_ns,
            reference_bare_ns=self.reference_bare_ns,
            looped_ns=self.looped_ns,
            reference_looped_ns=self.reference_looped_ns,
            watched_ns=self.watched_ns,
            busy_ns=self.busy_ns,
            gpus=tuple(self.gpus),
            processes=self.processes,
            links=links,
        )


def floor_us(problem: Problem, dims: dict[str, int], profile: Profile, dtype: str) -> float | None:
    """The roofline floor of one call; None on a practice board."""
    if profile.peaks is None:
        return None
    cost = problem.cost(dims, profile.world_size, element_bytes(dtype))
    return floor(cost, profile.peaks, dtype=dtype).us
