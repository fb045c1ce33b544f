"""All calls at one size by one worker group: opening, checks, the timed series, links and the recorded call."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from evaluator.contract import (
    BufferKind,
    CallKind,
    CallRecord,
    CallTimeline,
    Finding,
    LinkTraffic,
    RecordedWork,
    SizeRecord,
    SizeResult,
    Stage,
)
from evaluator.host.hangs.incidents import GroupTrouble, IncidentKind
from evaluator.host.machine import nvlink
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure import gpu_memory, recorded_call
from evaluator.host.measure.call_checks import CallChecks, CallPolicy
from evaluator.host.measure.calls import Caller
from evaluator.host.measure.evidence import Ended, SizeEvidence
from evaluator.host.measure.gpu_memory import GpuMemory
from evaluator.host.measure.head_start import HeadStart
from evaluator.host.measure.references import ReferenceClock, SteadySpeed
from evaluator.host.measure.schedule import Legs, check_calls, full_checks, legs, timed_calls
from evaluator.host.measure.series import Series, element_bytes, floor_us
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.sandbox import cpu_sets
from evaluator.judging import timing
from evaluator.judging.checks import Check
from problems.schema import Problem, Regime

_OPENING_CALLS = 3
"""Calls before the first leg. The first does one-time work; the third shows whether the program queues all work."""

_STEADY_CALLS, _STEADY_S = 30, 0.3
"""Calls of the reference before its first leg where speed is ranked: with fewer libraries are still slower. No new call
begins after so many seconds."""

_WARM_CALLS, _WARM_S = 20, 0.25
"""Calls of a submission before its first leg, and how long they may take, until libraries run at their steady speed."""

_LEAST_BLOCKS = 3
"""The least blocks of a series whose budget is spent: fewer in a second group would show no difference."""

_WATCHED_EVERY = 2
"""Reading every process and GPU takes milliseconds, so it is done in one block of so many."""

_RECENT_CALLS = 5
"""How many calls before the first leg give the time of one call."""

_LOOPED_S, _MOST_LOOPED = 0.05, 100
"""About how long, and at most how often, a program runs back to back on unchanging inputs."""

Stages = Callable[[Stage, str, float | None], AbstractContextManager[None]]
"""Enters a stage of the evaluation: which stage, a description, and the fraction done."""


@dataclass(frozen=True, kw_only=True)
class Bare:
    """Times of bare calls in ns: in sandbox ranks before they could read a submission, and in reference ranks."""

    sandbox_ns: tuple[int, ...] = ()
    reference_ns: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rig:
    """What all sizes of one worker group have in common.

    Attributes:
        group_number: which group of the evaluation this is, from 1.
        bare: its times of bare calls.
        memory: reads the GPUs' memory since before the group had a submission.
        watch: reads the GPUs around legs of the reference.
        first_call_s: extra time for the first call at a size.
        regimes: by size, the regimes that calls are drawn in.
        only: the one regime of all checked calls, where the author asked for one.
        budget_s: how long the timed series of one size may take.
        stages: enters a stage of the evaluation.
    """

    problem: Problem
    dtype: str
    key: bytes
    plan: SlotPlan
    trusted: TrustedRanks
    group: WorkerGroup
    group_number: int
    bare: Bare
    memory: GpuMemory
    watch: SlotWatch
    policy: CallPolicy
    draws: Iterator[int]
    numbers: Iterator[int]
    first_call_s: float
    regimes: Mapping[str, Sequence[Regime]]
    only: Regime | None
    budget_s: float
    stages: Stages


@dataclass(frozen=True, kw_only=True)
class SizeOutcome:
    """What one worker group showed at one size, however its run ended. A later group starts from it.

    Attributes:
        record: every call.
        result: the checks of these calls.
        warnings: what would be findings in ranked mode.
        buffers: how inputs reached the ranks.
        speed: the reference's.
        queues: whether the submission queues all its work without waiting for the device.
        work: what ran in the recorded call, where there was one.
        timeline: the same on every rank.
    """

    record: SizeRecord
    result: SizeResult
    warnings: tuple[Finding, ...]
    buffers: BufferKind
    speed: SteadySpeed
    queues: bool
    work: RecordedWork | None
    timeline: CallTimeline | None


class SizeRun:
    """One size, run by one worker group; `outcome` holds all calls so far, however the run ends."""

    def __init__(self, rig: Rig, size: str, *, known: SizeOutcome | None = None) -> None:
        """Open the size and call the reference; few calls are enough where it is `known` from an earlier group."""
        self._rig = rig
        self._size = size
        self._known = known
        with rig.stages(Stage.PREPARING, f"{size}: reference and first inputs", None):
            self._opened = rig.trusted.open_size(problem=rig.problem.slug, size=size, dtype=rig.dtype, key=rig.key)
            self._clock = ReferenceClock(rig.trusted, self._opened, rig.draws)
            self._speed = self._open_reference()
        payload_bytes = 0 if known is None else known.record.payload_bytes
        self._at_size = SizeEvidence(size=size, dims=self._opened.dims, payload_bytes=payload_bytes)
        self._checks = CallChecks(rig.policy, size=size, warn=self._at_size.warn)
        self._head_start = HeadStart() if known is None else HeadStart(waits_for_queue=known.queues, is_fixed=True)
        self._caller = Caller(
            rig.group,
            rig.trusted.oracle,
            opened=self._opened,
            at_size=self._at_size,
            draws=rig.draws,
            numbers=rig.numbers,
            reference_s=self._speed.call_s,
            first_call_s=rig.first_call_s,
            head_start=self._head_start,
            policy=rig.policy,
            checks=self._checks,
        )
        self._series = Series(
            speed=self._speed,
            bare_ns=rig.bare.sandbox_ns,
            reference_bare_ns=rig.bare.reference_ns,
        )
        self._links: LinkTraffic | None = None
        self._work: RecordedWork | None = None
        self._timeline: CallTimeline | None = None
        # The first group has made the calls in regimes.
        self._regimes = list(rig.regimes.get(size, ())) if known is None else []

    @property
    def regime(self) -> Regime | None:
        """The regime of the last call; None for the inputs of timed calls."""
        return self._caller.regime

    def outcome(self) -> SizeOutcome:
        """Everything so far."""
        return SizeOutcome(
            record=self._record(),
            result=self._at_size.result(),
            warnings=tuple(self._at_size.warnings),
            buffers=self._opened.buffers,
            speed=self._speed,
            queues=self._head_start.waits_for_queue,
            work=self._work,
            timeline=self._timeline,
        )

    def verify(self) -> None:
        """The calls before any leg, every one compared; raises Ended and GroupTrouble."""
        settings, is_timed = self._rig.plan.settings, self._rig.policy.mode.is_timed
        count = settings.check_calls if not is_timed else _OPENING_CALLS if self._known is None else 1
        # In a timed mode the regimes lie among the timed calls.
        calls = check_calls(count, regimes=() if is_timed else self._regimes, policy=self._rig.policy)
        for number, (kind, regime) in enumerate(calls):
            with self._rig.stages(
                Stage.VERIFYING, f"{self._size}: call {number + 1} of {len(calls)}", number / len(calls)
            ):
                self._caller.call(verify=True, kind=kind, regime=regime or self._rig.only)
        self.look_at_memory()

    def look_at_memory(self) -> None:
        """Note how much memory judge and submission hold; raises EvaluatorError."""
        self._at_size.memory = gpu_memory.most(self._at_size.memory, self._rig.memory.look())

    def warm_up(self) -> None:
        """Calls that only bring the program to its steady speed, as the reference had; raises Ended."""
        begun, done = time.monotonic(), 0
        with self._rig.stages(Stage.VERIFYING, f"{self._size}: reaching a steady speed", None):
            while done < _WARM_CALLS and time.monotonic() - begun < _WARM_S:
                self._caller.call(verify=False)
                done += 1

    def time(self) -> None:
        """Blocks of reference and submission until the interval is narrow or the budget is spent; raises Ended."""
        rig, series = self._rig, self._series
        series.queues = self._head_start.waits_for_queue
        series.gpus += rig.watch.read("before")
        begun = time.monotonic()
        with cpu_sets.host_on(rig.plan.shares):
            plan = self._legs()
            time_candidate = self._timed_calls(plan)
            while not self._may_stop(spent_s=time.monotonic() - begun):
                done = len(series.candidate)
                share = min(1.0, (time.monotonic() - begun) / rig.budget_s)
                with rig.stages(Stage.TIMING, f"{self._size}: block {done + 1}", share):
                    is_watched = done % _WATCHED_EVERY == 0
                    series.run_block(
                        plan,
                        time_candidate=time_candidate,
                        clock=self._clock,
                        busy_ns=rig.group.busy_ns if is_watched and rig.policy.does(Check.IDLE) else None,
                        watch=rig.watch if is_watched else None,
                    )
            self._call_in(self._regimes)
        series.gpus += rig.watch.read("after")
        self.look_at_memory()
        series.processes = rig.group.count_processes()

    def loop(self) -> None:
        """Run both programs back to back on unchanging inputs, as the published harness does. Not part of the score."""
        if any(argument.mutable or argument.scratch for argument in self._rig.problem.arguments):
            return
        times = max(2, min(_MOST_LOOPED, int(_LOOPED_S / max(self._speed.call_s, 1e-9))))
        with self._rig.stages(Stage.TIMING, f"{self._size}: calls back to back", None):
            self._series.looped_ns = _per_call(self._caller.loop, times)
            self._series.reference_looped_ns = _per_call(self._rig.trusted.reference.loop, times)

    def count_links(self) -> None:
        """A few ordinary calls, around which the host reads the counters of the links."""
        rig = self._rig
        with rig.stages(Stage.VERIFYING, f"{self._size}: bytes on the links", None):
            cost = rig.problem.cost(self._opened.dims, rig.plan.profile.world_size, element_bytes(rig.dtype))
            self._links = nvlink.count(
                rig.plan.gpus,
                least_bytes=cost.wire_bytes,
                call=lambda around: self._caller.call(verify=False, around=around),
            )

    def record_work(self) -> None:
        """Record one call. A profiler may slow everything that runs after it, so it is the last.

        Raises:
            Ended: an output is wrong; or library collectives moved the data, where that counts.
        """
        self._work, self._timeline = self._recorded()
        if found := self._checks.hidden(self._work):
            raise Ended(found)

    def _recorded(self) -> tuple[RecordedWork, CallTimeline | None]:
        """The recorded call, summed up and as a timeline."""
        files = [recorded_call.create() for _ in range(self._rig.plan.profile.world_size)]
        try:
            with (
                self._rig.stages(Stage.VERIFYING, f"{self._size}: recording kernels and copies", None),
                recorded_call.window() as seen,
            ):
                self._caller.call(verify=True, kind=CallKind.RECORDED, recordings=files)
                window = seen()
            return (
                recorded_call.read_rows(files, size=self._size),
                recorded_call.read_timeline(files, window=window),
            )
        except GroupTrouble as trouble:
            if any(incident.kind is IncidentKind.VIOLATION for incident in trouble.incidents):
                raise
            # The profiler may have caused it, so there is no finding: the report says why records are missing.
            return RecordedWork(size=self._size, note=f"the ranks did not finish the recorded call: {trouble}"), None
        finally:
            for descriptor in files:
                os.close(descriptor)

    def _record(self) -> SizeRecord:
        """Every call so far."""
        rig = self._rig
        floor = floor_us(rig.problem, self._opened.dims, rig.plan.profile, rig.dtype)
        return self._series.record(self._at_size, floor_us=floor, group_number=rig.group_number, links=self._links)

    def _open_reference(self) -> SteadySpeed:
        """The reference's calls before the first leg: many in the first group, a few in a later one."""
        if self._known is not None:
            self._clock.reopen(self._known.speed, calls=_OPENING_CALLS)
            return self._known.speed
        if self._rig.plan.profile.is_ranked_by_speed and self._rig.policy.mode.is_timed:
            return self._clock.open(calls=_STEADY_CALLS, seconds=_STEADY_S)
        return self._clock.open(calls=2, seconds=0.0)

    def _legs(self) -> Legs:
        rig, settings = self._rig, self._rig.plan.settings
        if not rig.plan.profile.is_ranked_by_speed:
            settings = replace(
                settings, min_leg_calls=settings.practice_min_leg_calls, max_leg_calls=settings.practice_max_leg_calls
            )
        # The fastest call: a few slow ones, by chance or on purpose, must not decide how many are timed.
        fastest_ns = min(call.time_ns for call in self._at_size.records[-_RECENT_CALLS:])
        return legs(
            self._speed.call_s,
            self._speed.turn_s,
            fastest_ns * 1e-9,
            budget_s=rig.budget_s,
            settings=settings,
        )

    def _timed_calls(self, plan: Legs) -> Callable[[], CallRecord]:
        """Makes the next timed call, and the special call before it."""
        rig = self._rig
        total = 12 * plan.candidate
        # A practice board ranks by correctness, and comparing is cheap: there every call is checked.
        checks = (
            full_checks(total, comparing_s=self._caller.comparing_s, settings=rig.plan.settings)
            if rig.plan.profile.is_ranked_by_speed
            else total
        )
        upcoming = timed_calls(block_calls=plan.candidate, checks=checks, policy=rig.policy, regimes=self._regimes)

        def time_candidate() -> CallRecord:
            call = next(upcoming)
            # Before the regimes: a near call changes a few elements of the usual call that was made last.
            if call.special is not None:
                self._caller.call(verify=True, kind=call.special)
            self._call_in(call.regimes)
            return self._caller.call(verify=call.is_checked)

        return time_candidate

    def _call_in(self, regimes: Sequence[Regime]) -> None:
        """Make a checked call in each of `regimes`, and drop them from the list."""
        for regime in tuple(regimes):
            self._regimes.remove(regime)
            self._caller.call(verify=True, kind=CallKind.REGIME, regime=regime)

    def _may_stop(self, *, spent_s: float) -> bool:
        blocks = len(self._series.candidate)
        wanted = self._rig.plan.settings.blocks
        if wanted is not None:
            return blocks >= wanted
        if blocks < _LEAST_BLOCKS:
            return False
        if spent_s > self._rig.budget_s:
            return True
        known: Sequence[SizeRecord] = () if self._known is None else (self._known.record,)
        return timing.may_stop([*known, self._record()], self._rig.plan.profile.timing_rules())


def _per_call(loop: Callable[[int], int], times: int) -> int:
    """Nanoseconds of one call in a loop, without the time for request and answer."""
    loop(1)
    once = loop(1)
    return max(0, loop(times) - once) // (times - 1)
