"""Runs the timed series of one size: blocks of reference and submission, with checked calls in secret positions."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from evaluator.contract import CallKind, CallRecord, SizeRecord, Stage
from evaluator.host.measure.calls import Caller
from evaluator.host.measure.evidence import SizeEvidence
from evaluator.host.measure.group_setup import GroupSetup
from evaluator.host.measure.references import ReferenceClock
from evaluator.host.measure.schedule import Legs, TimedCall, full_checks, legs, timed_calls
from evaluator.host.measure.series import Series
from evaluator.judging import timing
from evaluator.judging.checks import Check
from problems.spec.schema import Regime

_LEAST_BLOCKS = 3
"""The least blocks of a series whose budget is spent: fewer in a second group would show no difference."""

_WATCHED_EVERY = 2
"""Reading every process and GPU takes milliseconds, so it is done in one block of so many."""

_RECENT_CALLS = 5
"""How many calls before the first leg give the time of one call."""


class SeriesRun:
    """Runs blocks until the interval is narrow or the budget is spent. The series holds what was timed at any moment.

    Args:
        setup: what measures, and how long the series may take.
        at_size: the evidence, with the calls before the first leg.
        series: takes the times.
        clock: times the reference.
        caller: calls the submission.
        regimes: in each of them one call is made, between timed ones.
        records: every call at this size so far.
    """

    def __init__(
        self,
        setup: GroupSetup,
        at_size: SizeEvidence,
        *,
        series: Series,
        clock: ReferenceClock,
        caller: Caller,
        regimes: Sequence[Regime],
        records: Callable[[], Sequence[SizeRecord]],
    ) -> None:
        self._setup = setup
        self._at_size = at_size
        self._series = series
        self._clock = clock
        self._caller = caller
        self._regimes = list(regimes)
        self._records = records

    def run(self) -> None:
        """Run the series, and the calls in regimes that it had no room for; raises Ended."""
        begun = time.monotonic()
        plan = self._legs()
        upcoming = self._upcoming(plan)
        while not self._may_stop(spent_s=time.monotonic() - begun):
            self._run_block(plan, upcoming, share=min(1.0, (time.monotonic() - begun) / self._setup.budget_s))
        self._call_in(self._regimes)

    def _run_block(self, plan: Legs, upcoming: Iterator[TimedCall], *, share: float) -> None:
        setup, done = self._setup, len(self._series.candidate)
        is_watched = done % _WATCHED_EVERY == 0
        with setup.stages(Stage.TIMING, f"{self._at_size.size}: block {done + 1}", share):
            self._series.run_block(
                plan,
                time_candidate=lambda: self._time_candidate(next(upcoming)),
                clock=self._clock,
                busy_ns=setup.group.busy_ns if is_watched and setup.policy.does(Check.IDLE) else None,
                watch=setup.watch if is_watched else None,
            )

    def _legs(self) -> Legs:
        setup, settings, speed = self._setup, self._setup.plan.settings, self._series.speed
        if not setup.plan.profile.is_ranked_by_speed:
            settings = replace(
                settings, min_leg_calls=settings.practice_min_leg_calls, max_leg_calls=settings.practice_max_leg_calls
            )
        # The fastest call: a few slow ones, by chance or on purpose, must not decide how many are timed.
        fastest_ns = min(call.time_ns for call in self._at_size.records[-_RECENT_CALLS:])
        return legs(speed.call_s, speed.turn_s, fastest_ns * 1e-9, budget_s=setup.budget_s, settings=settings)

    def _upcoming(self, plan: Legs) -> Iterator[TimedCall]:
        setup = self._setup
        total = 12 * plan.candidate
        # A practice board ranks by correctness, and comparing is cheap: there every call is checked.
        checks = (
            full_checks(total, comparing_s=self._caller.comparing_s, settings=setup.plan.settings)
            if setup.plan.profile.is_ranked_by_speed
            else total
        )
        return timed_calls(block_calls=plan.candidate, checks=checks, policy=setup.policy, regimes=self._regimes)

    def _time_candidate(self, call: TimedCall) -> CallRecord:
        """The next timed call, after the special call before it."""
        # Before the regimes: a near call changes a few elements of the usual call that was made last.
        if call.special is not None:
            self._caller.call(verify=True, kind=call.special)
        self._call_in(call.regimes)
        return self._caller.call(verify=call.is_checked)

    def _call_in(self, regimes: Sequence[Regime]) -> None:
        """Make a checked call in each of `regimes`, and drop them from the list."""
        for regime in tuple(regimes):
            self._regimes.remove(regime)
            self._caller.call(verify=True, kind=CallKind.REGIME, regime=regime)

    def _may_stop(self, *, spent_s: float) -> bool:
        blocks = len(self._series.candidate)
        wanted = self._setup.plan.settings.blocks
        if wanted is not None:
            return blocks >= wanted
        if blocks < _LEAST_BLOCKS:
            return False
        if spent_s > self._setup.budget_s:
            return True
        return timing.may_stop(self._records(), self._setup.plan.profile.timing_rules())
