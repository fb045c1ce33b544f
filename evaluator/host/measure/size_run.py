"""All calls at one size by one worker group: opening, checks, the timed series, links and the recorded call."""

import os
import time
from collections.abc import Callable
from typing import Self

from evaluator.contract import CallKind, CallTimeline, Finding, PublishedTime, RecordedWork, Stage, Verdict
from evaluator.host.hangs.incidents import IncidentKind, WorkerGroupFailure
from evaluator.host.measure import checks, gpu_memory, published_protocol, recorded_call
from evaluator.host.measure.calls import Caller
from evaluator.host.measure.evidence import Ended, SizeEvidence
from evaluator.host.measure.group_run import GroupRun
from evaluator.host.measure.launch_ahead import LaunchAhead
from evaluator.host.measure.references import ReferenceClock, SteadySpeed
from evaluator.host.measure.schedule import check_calls
from evaluator.host.measure.series import Series
from evaluator.host.sandbox import cpu_sets
from evaluator.judging.floors import cost_of

_OPENING_CALLS = 3
"""Calls before the first phase. The first does one-time work; the third shows whether the program queues all work."""

_STEADY_CALLS, _STEADY_S = 30, 0.3
"""Calls of the reference before its first phase where speed is ranked: with fewer libraries are still slower. No new
call begins after so many seconds."""

_WARM, _LONG_WARM = (20, 0.25), (80, 1.0)
"""Calls of a submission before its first phase, and how many seconds they may take, until libraries run at a steady
speed. Programs that wait for the device mostly wait for sizes, and the reference, whose ranks live on, has met more."""

PUBLISHED_DRAWS = 5
_PUBLISHED_S, _PRACTICE_PUBLISHED_S = 4.0, 0.4
"""How many usual calls the published rule compares, and how long the published protocol may run either program."""

_LOOPED_S, _MOST_LOOPED = 0.05, 100
"""About how long, and at most how often, a program runs back to back on unchanging inputs."""


class SizeRun:
    """One size, run by one worker group; it holds all calls so far, however the run ends. A later group starts from it.

    Attributes:
        size: which one.
        opened: how the oracle has opened it.
        speed: the reference's.
        at_size: the evidence of all calls.
        launch_ahead: whether the submission queues all its work without waiting for the device.
        caller: calls the submission.
        series: the timed calls.
        work: what ran in the recorded call, where there was one.
        timeline: the same on every rank.
    """

    def __init__(self, run: GroupRun, size: str, *, known: Self | None = None) -> None:
        """Open the size and call the reference; few calls are enough where it is `known` from an earlier group."""
        self._run, self._job = run, run.job
        self.size = size
        self._known = known
        job = run.job
        with job.stage(Stage.PREPARING, f"{size}: reference and first inputs"):
            self.opened = run.trusted.open_size(problem=job.problem.slug, size=size, dtype=job.dtype, key=run.key)
            self._clock = ReferenceClock(run.trusted, self.opened, run.draws)
            self.speed = self._open_reference()
        payload_bytes = 0 if known is None else known.at_size.payload_bytes
        self.at_size: SizeEvidence = SizeEvidence(size=size, dims=self.opened.dims, payload_bytes=payload_bytes)
        self.launch_ahead: LaunchAhead = LaunchAhead(
            waits_for_queue=known is not None and known.launch_ahead.waits_for_queue, is_fixed=known is not None
        )
        self.caller = Caller(
            run, opened=self.opened, at_size=self.at_size, launch_ahead=self.launch_ahead, reference_s=self.speed.call_s
        )
        # The first group has made the calls in regimes.
        self._regimes = tuple(run.regimes.get(size, ())) if known is None else ()
        self.series: Series = Series(
            run=run,
            at_size=self.at_size,
            speed=self.speed,
            clock=self._clock,
            caller=self.caller,
            regimes=list(self._regimes),
            known=None if known is None else known.series.record(),
        )
        self.work: RecordedWork | None = None
        self.timeline: CallTimeline | None = None

    def verify(self) -> None:
        """The calls before any phase, every one compared; raises Ended and WorkerGroupFailure."""
        settings, is_timed = self._job.settings, self._job.is_timed
        count = settings.check_calls if not is_timed else _OPENING_CALLS if self._known is None else 1
        # In a timed mode the regimes lie among the timed calls.
        calls = check_calls(count, regimes=() if is_timed else self._regimes, job=self._job)
        for number, (kind, regime) in enumerate(calls):
            words = f"{self.size}: call {number + 1} of {len(calls)}, which may take {self.caller.limit_s:.0f} s"
            with self._job.stage(Stage.VERIFYING, words, number / len(calls)):
                self.caller.call(verify=True, kind=kind, regime=regime or self._job.only_regime)
        self.look_at_memory()

    def look_at_memory(self) -> None:
        """Note how much memory judge and submission hold; raises EvaluatorError."""
        self.at_size.memory = gpu_memory.most(self.at_size.memory, self._run.memory.look())

    def warm_up(self) -> None:
        """Calls that only bring the program to its steady speed, as the reference had; raises Ended.

        Where calls had new layouts, it is known only here whether the program queues all its work.
        """
        begun, done, head = time.monotonic(), 0, self.launch_ahead
        with self._job.stage(Stage.VERIFYING, f"{self.size}: reaching a steady speed"):
            while True:
                is_long = self._job.profile.is_ranked_by_speed and not head.waits_for_queue
                calls, seconds = _LONG_WARM if is_long else _WARM
                if head.is_fixed and (done >= calls or time.monotonic() - begun >= seconds):
                    return
                self.caller.call(verify=False)
                done += 1

    def time(self) -> None:
        """Time both programs side by side; raises Ended."""
        run, series = self._run, self.series
        series.queues = self.launch_ahead.waits_for_queue
        series.gpus += run.watch.read("before")
        with cpu_sets.host_on(self._job.resources.shares):
            series.time()
        series.gpus += run.watch.read("after")
        self.look_at_memory()
        series.processes = len(run.group.sandbox.processes.members())

    def loop(self) -> None:
        """Run both programs back to back on unchanging inputs. Not part of the score."""
        if any(argument.mutable or argument.scratch for argument in self._job.problem.arguments):
            return
        with self._job.stage(Stage.TIMING, f"{self.size}: calls back to back"):
            self.series.looped_ns = _per_call(self.caller.loop)
            self.series.reference_looped_ns = _per_call(self._run.trusted.reference.loop)

    def as_published(self) -> PublishedTime | None:
        """Compare by the published rule, then time by the published protocol where the profile has times.

        Raises:
            Ended: an output differs.
        """
        for number in range(PUBLISHED_DRAWS):
            words = f"{self.size}: call {number + 1} of {PUBLISHED_DRAWS} by the published rule"
            with self._job.stage(Stage.VERIFYING, words, number / PUBLISHED_DRAWS):
                if differs := self.caller.difference(self._clock):
                    message = f"wrong by the published rule: {differs}"
                    raise Ended([Finding(verdict=Verdict.WRONG_RESULT, message=message, size=self.size)])
        self.look_at_memory()
        if not self._job.is_timed:
            return None
        with self._job.stage(Stage.TIMING, f"{self.size}: the published protocol"):
            limit_s = _PUBLISHED_S if self._job.profile.is_ranked_by_speed else _PRACTICE_PUBLISHED_S
            loops = (self.caller.loop, self._run.trusted.reference.loop)
            return published_protocol.timed(self.size, loops, self.caller.input_bytes, self.opened, limit_s=limit_s)

    def count_links(self) -> None:
        """A few ordinary calls, around which the host reads the counters of the links."""
        job = self._job
        with job.stage(Stage.VERIFYING, f"{self.size}: bytes on the links"):
            cost = cost_of(job.problem, self.opened.dims, world_size=job.profile.world_size, dtype=job.dtype)
            self.series.links = self._run.watch.count_links(
                least_bytes=cost.wire_bytes, call=lambda around: self.caller.call(verify=False, around=around)
            )

    def record_work(self) -> None:
        """Record one call. A profiler may slow everything that runs after it, so it is the last.

        Raises:
            Ended: an output is wrong; or library collectives moved the data, where that counts.
        """
        self.work, self.timeline = self._recorded()
        if found := checks.hidden(self._job, self.work, self.at_size):
            raise Ended(found)

    def _recorded(self) -> tuple[RecordedWork, CallTimeline | None]:
        """The recorded call, summed up and as a timeline."""
        files = [recorded_call.create() for _ in range(self._job.profile.world_size)]
        try:
            with (
                self._job.stage(Stage.VERIFYING, f"{self.size}: recording kernels and copies"),
                recorded_call.window() as seen,
            ):
                self.caller.call(verify=True, kind=CallKind.RECORDED, recordings=files)
                window = seen()
            return (recorded_call.read_rows(files, size=self.size), recorded_call.read_timeline(files, window=window))
        except WorkerGroupFailure as failure:
            if any(incident.kind is IncidentKind.VIOLATION for incident in failure.incidents):
                raise
            # The profiler may have caused it, so there is no finding: the report says why records are missing.
            return RecordedWork(size=self.size, note=f"the ranks did not finish the recorded call: {failure}"), None
        finally:
            for descriptor in files:
                os.close(descriptor)

    def _open_reference(self) -> SteadySpeed:
        """The reference's calls before the first phase: many in the first group, a few in a later one."""
        if self._known is not None:
            self._clock.reopen(self._known.speed, calls=_OPENING_CALLS)
            return self._known.speed
        if self._job.profile.is_ranked_by_speed and self._job.is_timed:
            return self._clock.open(calls=_STEADY_CALLS, seconds=_STEADY_S)
        return self._clock.open(calls=2, seconds=0.0)


def _per_call(loop: Callable[[int], int]) -> int:
    """Nanoseconds of one call in a loop, without the time for request and answer."""
    loop(1)
    once = loop(1)
    # By the program's own time: a slow one would not end as many calls as its reference does.
    times = max(2, min(_MOST_LOOPED, int(_LOOPED_S * 1e9 / max(once, 1))))
    return max(0, loop(times) - once) // (times - 1)
