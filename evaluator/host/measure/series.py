"""The timed series of one size: blocks of reference and submission, with checked calls in secret positions."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from evaluator.contract import (
    MOMENT_PHASE,
    CallKind,
    CallRecord,
    GpuReading,
    LinkTraffic,
    ReferenceCall,
    SizeRecord,
    Stage,
)
from evaluator.host.clock.call_clock import CallTime
from evaluator.host.measure.calls import Caller
from evaluator.host.measure.evidence import SizeEvidence
from evaluator.host.measure.group_run import GroupRun
from evaluator.host.measure.references import ReferenceClock, SteadySpeed
from evaluator.host.measure.schedule import Phases, TimedCall, full_checks, phases, timed_calls
from evaluator.host.ranks.reference_group import ReferenceTime
from evaluator.judging import timing
from evaluator.judging.checks import Check
from evaluator.judging.floors import floor_of
from problems.spec.schema import Regime

_LEAST_BLOCKS = 3
"""The least blocks of a series whose budget is spent: fewer in a second group would show no difference."""

_WATCHED_EVERY = 2
"""Reading every process and GPU takes milliseconds, so it is done in one block of so many."""

_RECENT_CALLS = 5
"""How many calls before the first phase give the time of one call."""

_SETTLING, _SETTLES_S = 2, 0.02
"""So many calls are not timed after another program or a comparison had the GPUs: on 2 H200 the first took 3 to 5 us
longer, the second 1.5 us (28 November 2026, 56 references). Calls of more seconds than this do not need it."""


@dataclass(kw_only=True)
class Series:
    """The timed calls of one size and group: per block, the calls of both sides, and the empty calls between them.

    It holds what was timed at any moment, however it ends.

    Attributes:
        run: the worker group, and how long the series may take.
        at_size: the evidence, with the calls before the first phase.
        speed: the reference's.
        clock: times the reference.
        caller: calls the submission.
        regimes: in each of them one call is made, between timed ones.
        known: the calls of an earlier group at this size.
    """

    run: GroupRun
    at_size: SizeEvidence
    speed: SteadySpeed
    clock: ReferenceClock
    caller: Caller
    regimes: list[Regime]
    known: SizeRecord | None
    queues: bool = False
    candidate: list[list[CallRecord]] = field(default_factory=list)
    reference: list[list[ReferenceTime]] = field(default_factory=list)
    empty: list[CallTime] = field(default_factory=list)
    looped_ns: int | None = None
    reference_looped_ns: int | None = None
    watched_ns: int = 0
    busy_ns: int = 0
    gpus: list[GpuReading] = field(default_factory=list)
    processes: int = 0
    links: LinkTraffic | None = None
    _is_settled: bool = False

    def time(self) -> None:
        """Run blocks until the interval is narrow or the budget is spent, then the calls in regimes that are left.

        Raises:
            Ended: a check ended the evaluation.
        """
        begun = time.monotonic()
        counts = self._phases()
        upcoming = self._upcoming(counts)
        while not self._may_stop(spent_s=time.monotonic() - begun):
            share = min(1.0, (time.monotonic() - begun) / self.run.budget_s)
            with self.run.job.stage(Stage.TIMING, f"{self.at_size.size}: block {len(self.candidate) + 1}", share):
                self._run_block(counts, upcoming, is_watched=len(self.candidate) % _WATCHED_EVERY == 0)
        self._call_in(self.regimes)

    def _run_block(self, counts: Phases, upcoming: Iterator[TimedCall], *, is_watched: bool) -> None:
        """One block A B B A with an empty call at either end.

        In one that `is_watched` the GPUs and the submission's processor time are read around each A.
        """
        self.empty.append(self.clock.empty())
        ours = self._phase(counts.reference, is_watched=is_watched)
        self._is_settled = False
        theirs = [self._time_candidate(next(upcoming)) for _ in range(counts.candidate)]
        self.reference.append(ours + self._phase(counts.reference, is_watched=is_watched))
        self.candidate.append(theirs)
        self.empty.append(self.clock.empty())

    def _phase(self, calls: int, *, is_watched: bool) -> list[ReferenceTime]:
        gpus: AbstractContextManager[None] = nullcontext()
        busy: AbstractContextManager[None] = nullcontext()
        if is_watched:
            moment, made = f"{MOMENT_PHASE} {len(self.candidate) + 1}", self._settling + calls
            gpus = self.run.watch.around(moment, calls=made, into=self.gpus)
            busy = self._busy() if self.run.job.does(Check.IDLE) else busy
        with gpus, busy:
            return [self.clock.time() for _ in range(self._settling + calls)][self._settling :]

    @property
    def _settling(self) -> int:
        """How many calls bring a program back to its steady speed; those of a practice board need none."""
        is_short = self.run.job.profile.is_ranked_by_speed and self.speed.turn_s <= _SETTLES_S
        return _SETTLING if is_short else 0

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Add up the time inside, and the processor time that the submission uses in it."""
        start, used = time.monotonic_ns(), self.run.group.sandbox.processes.busy_ns()
        yield
        self.busy_ns += self.run.group.sandbox.processes.busy_ns() - used
        self.watched_ns += time.monotonic_ns() - start

    def _phases(self) -> Phases:
        job, speed, settings = self.run.job, self.speed, self.run.job.settings
        if not job.profile.is_ranked_by_speed:
            settings = replace(
                settings,
                min_phase_calls=settings.practice_min_phase_calls,
                max_phase_calls=settings.practice_max_phase_calls,
            )
        # The fastest call: a few slow ones, by chance or on purpose, must not decide how many are timed.
        fastest_ns = min(call.time_ns for call in self.at_size.records[-_RECENT_CALLS:])
        return phases(speed.call_s, speed.turn_s, fastest_ns * 1e-9, budget_s=self.run.budget_s, settings=settings)

    def _upcoming(self, counts: Phases) -> Iterator[TimedCall]:
        job, total = self.run.job, 12 * counts.candidate
        # A practice board ranks by correctness, and comparing is cheap: there every call is checked.
        checks = (
            full_checks(total, comparing_s=self.caller.comparing_s, settings=job.settings)
            if job.profile.is_ranked_by_speed
            else total
        )
        return timed_calls(block_calls=counts.candidate, checks=checks, job=job, regimes=tuple(self.regimes))

    def _time_candidate(self, call: TimedCall) -> CallRecord:
        """The next timed call, after the special call before it."""
        # Before the regimes: a near call changes a few elements of the usual call that was made last.
        if call.special is not None:
            self.caller.call(verify=True, kind=call.special)
        self._call_in(call.regimes)
        if call.special or call.regimes or not self._is_settled:
            for _ in range(self._settling):
                self.caller.call(verify=False)
        self._is_settled = not call.is_checked
        return self.caller.call(verify=call.is_checked)

    def _call_in(self, regimes: Sequence[Regime]) -> None:
        """Make a checked call in each of `regimes`, and drop them from the list."""
        for regime in tuple(regimes):
            self.regimes.remove(regime)
            self.caller.call(verify=True, kind=CallKind.REGIME, regime=regime)

    def _may_stop(self, *, spent_s: float) -> bool:
        blocks, job = len(self.candidate), self.run.job
        if job.settings.blocks is not None:
            return blocks >= job.settings.blocks
        if blocks < _LEAST_BLOCKS:
            return False
        if spent_s > self.run.budget_s:
            return True
        known = [] if self.known is None else [self.known]
        return timing.may_stop([*known, self.record()], job.profile.timing_rules())

    def record(self) -> SizeRecord:
        """Every call at this size so far, and which calls are timed."""
        run, reference = self.run, [call for block in self.reference for call in block]
        floor = floor_of(run.job.problem, self.at_size.dims, run.job.profile, dtype=run.job.dtype)
        return SizeRecord(
            size=self.at_size.size,
            group_number=run.number,
            payload_bytes=self.at_size.payload_bytes,
            sealed_bytes=max((call.input_bytes for call in reference), default=0),
            marked_bytes=max((call.output_bytes for call in reference), default=0),
            floor_us=None if floor is None else floor.us,
            calls=tuple(self.at_size.records),
            blocks=tuple(tuple(call.number for call in block) for block in self.candidate),
            reference=tuple(
                tuple(ReferenceCall(time_ns=call.time.longest_ns, claimed_ns=max(call.claims_ns)) for call in block)
                for block in self.reference
            ),
            queues=self.queues,
            reference_queues=self.speed.waits_for_queue,
            empty_ns=tuple(call.longest_ns for call in self.empty),
            bare_ns=run.bare.sandbox_ns,
            reference_bare_ns=run.bare.reference_ns,
            looped_ns=self.looped_ns,
            reference_looped_ns=self.reference_looped_ns,
            watched_ns=self.watched_ns,
            busy_ns=self.busy_ns,
            gpus=tuple(self.gpus),
            processes=self.processes,
            links=self.links,
        )
