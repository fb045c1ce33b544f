"""Checks after every call, beside the comparison of output values."""

from collections.abc import Callable
from dataclasses import dataclass

from evaluator.arena.protocol import Report
from evaluator.contract import Backend, CallRecord, Finding, Mode, RecordedWork, Verdict
from evaluator.hardware.profiles import TimingPolicy
from evaluator.host.clock.call_clock import CallTime
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.ranks.oracle_group import Comparison, PreparedInputs, RankCheck, Traces
from evaluator.host.settings import JudgeSettings
from evaluator.judging import recorded_work
from evaluator.judging.checks import Check

VALUE_VERDICTS = frozenset({Verdict.WRONG_RESULT, Verdict.NOT_FINITE})
"""The verdicts on an output's values."""


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """How calls are made in one evaluation: the profile's timing policy, the slot's settings, and the request."""

    timing_policy: TimingPolicy
    settings: JudgeSettings
    backend: Backend
    mode: Mode
    deadlines: Deadlines
    cancelled: Callable[[], bool]

    def within(self, seconds: float) -> float:
        """`seconds`, or less where the evaluation's deadline comes sooner."""
        return self.deadlines.step(seconds)

    def does(self, check: Check) -> bool:
        """Whether `check` is not switched off."""
        return check not in self.settings.without

    @property
    def counts_collectives(self) -> bool:
        """Whether library collectives must not move this submission's data."""
        return self.backend is not Backend.PYTORCH and self.does(Check.COLLECTIVES)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What the host sent and observed in one call, before any comparison."""

    number: int
    reports: list[Report]
    time: CallTime
    is_reused: bool
    delays_us: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one call: its record, the comparisons, and the findings."""

    record: CallRecord
    checks: tuple[RankCheck, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether every compared output is correct."""
        return all(item.verdict is None for item in self.checks)


class CallChecks:
    """Makes findings from the reports of ranks and oracle; `warn` takes those that count in ranked mode only."""

    def __init__(self, policy: CallPolicy, *, size: str, warn: Callable[[Finding], None]) -> None:
        self._policy = policy
        self._size = size
        self._warn = warn

    def claimed(self, exchange: Exchange, inputs: list[PreparedInputs]) -> list[Finding]:
        """Findings from what ranks report about themselves: a changed input, a library collective."""
        found = []
        for rank, (report, prepared) in enumerate(zip(exchange.reports, inputs, strict=True)):
            if self._policy.does(Check.INPUTS) and 0 <= report.detail < len(prepared.tensors):
                found.append(self._mutated(rank, prepared.tensors[report.detail]))
            if report.moved and self._policy.counts_collectives:
                found += self._collectives(rank, report.moved)
        return found

    def changed(self, compared: Comparison) -> list[Finding]:
        """Findings from the oracle's comparison of inputs in device memory."""
        if not self._policy.does(Check.INPUTS):
            return []
        return [self._mutated(rank, name) for rank, name in enumerate(compared.changed) if name is not None]

    def _mutated(self, rank: int, name: str) -> Finding:
        message = f"rank {rank}: the call changed input {name!r}, which the problem does not allow"
        return self.finding(Verdict.INPUT_MUTATED, message, rank=rank)

    def _collectives(self, rank: int, moved: int) -> list[Finding]:
        message = (
            f"rank {rank}: {moved} collective(s) of torch.distributed moved tensors inside solution. Only backend "
            "pytorch may use them for the problem's data"
        )
        return self._counted_when_ranked(self.finding(Verdict.FORBIDDEN, message, rank=rank))

    def hidden(self, work: RecordedWork) -> list[Finding]:
        """Findings from the recorded call: library collectives that torch.distributed did not start."""
        found = recorded_work.hidden_collectives(work.works, backend=self._policy.backend)
        if found is None or not self._policy.counts_collectives:
            return []
        return self._counted_when_ranked(found)

    def _counted_when_ranked(self, finding: Finding) -> list[Finding]:
        if self._policy.mode is Mode.RANKED:
            return [finding]
        self._warn(finding)
        return []

    def altered(self, exchange: Exchange, traces: Traces) -> list[Finding]:
        """Findings where the outputs taken differ from those at the end of the call."""
        sealed = [
            self.finding(
                Verdict.TAMPERED,
                f"rank {rank}, call {exchange.number}: inputs were still sealed in their memory at the end of the "
                "call, so something other than the judge's shim read them",
                rank=rank,
            )
            for rank, is_sealed in enumerate(traces.are_sealed)
            if is_sealed
        ]
        return sealed + [
            self.finding(
                Verdict.INCOMPLETE_OUTPUT,
                f"rank {rank}, call {exchange.number}: the output changed after the end of the call, before the judge "
                "took it",
                rank=rank,
            )
            for rank, (reported, seen, is_late) in enumerate(
                zip(exchange.time.marks, traces.marks, traces.are_late, strict=True)
            )
            if is_late or (seen is not None and seen != reported)
        ]

    def unseen(self, rank: int, *, call: int) -> Finding:
        """The finding where a rank answered and its device has not ended the call."""
        message = f"rank {rank} answered call {call}, but its device never posted the end of the call"
        return self.finding(Verdict.TAMPERED, message, rank=rank)

    def finding(self, verdict: Verdict, message: str, *, rank: int | None = None, output: str | None = None) -> Finding:
        """A finding at this size."""
        return Finding(verdict=verdict, message=message, rank=rank, size=self._size, output=output)
