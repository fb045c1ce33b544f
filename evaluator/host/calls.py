"""One call of a submission: fresh contents in, outputs out, checked by the oracle ranks."""

import contextlib
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evaluator.arena.records import OUTPUT_HEADER_BYTES, Report
from evaluator.contract import Finding, SlotKind, Verdict
from evaluator.host import outputs
from evaluator.host.evidence import Ended, Evidence, SizeEvidence
from evaluator.host.gang import Gang
from evaluator.host.incidents import EvaluationCancelled
from evaluator.host.oracles import OpenedSize, OracleGang, PreparedInputs, RankCheck
from evaluator.host.settings import JudgeSettings

_REPLAYS = 2
_VALUE_VERDICTS = frozenset({Verdict.WRONG_RESULT, Verdict.NOT_FINITE})
_REMEMBERED = 3


@dataclass(frozen=True, kw_only=True)
class CallTime:
    """One call's times in nanoseconds: each rank's claim, and the host's window around it."""

    claims_ns: tuple[int, ...]
    window_ns: int

    @property
    def longest_ns(self) -> int:
        """The time of the call: the slowest rank's."""
        return max(self.claims_ns)


class Caller:
    """Makes calls at one size. The number on the channel counts calls; which contents they carry is secret."""

    def __init__(
        self,
        gang: Gang,
        oracle: OracleGang,
        *,
        opened: OpenedSize,
        evidence: Evidence,
        at_size: SizeEvidence,
        contents: Iterator[int],
        numbers: Iterator[int],
        reference_s: float,
        first_call_s: float,
        settings: JudgeSettings,
        deadline: float,
        cancelled: Callable[[], bool],
    ) -> None:
        self._gang = gang
        self._oracle = oracle
        self._opened = opened
        self._evidence = evidence
        self._at_size = at_size
        self._contents = contents
        self._numbers = numbers
        self._first_call_s = first_call_s
        self._settings = settings
        self._cancelled = cancelled
        self._deadline = deadline
        self._limit_s = max(settings.call_limit_s, settings.call_limit_factor * reference_s)
        self._earlier: list[int] = []
        self._number = 0

    def call(self, *, verify: bool) -> CallTime:
        """One call on new contents.

        Raises:
            GangTrouble: the ranks did not all answer.
            Ended: what came back is wrong; the findings say how.
        """
        self._check_whether_to_go_on()
        content = next(self._contents)
        call_time, checks = self._run(content, verify=verify)
        number = self._number
        if any(item.verdict is not None for item in checks):
            self._evidence.add_wrong(checks, size=self._at_size.size, call=number)
            self._replay(content, checks)
        if self._evidence.findings:
            raise Ended
        self._earlier = [*self._earlier[:1], *self._earlier[1:][-_REMEMBERED:], content]
        return call_time

    def _check_whether_to_go_on(self) -> None:
        if self._cancelled():
            raise EvaluationCancelled("the evaluation was cancelled")
        if time.monotonic() > self._deadline:
            message = f"the evaluation took longer than {self._settings.evaluation_s:g} s"
            finding = Finding(verdict=Verdict.TIMEOUT, message=message, size=self._at_size.size)
            self._evidence.findings.append(finding)
            raise Ended

    def _run(self, content: int, *, verify: bool) -> tuple[CallTime, list[RankCheck]]:
        inputs = self._oracle.prepare(content, groups=self._opened.groups)
        targets = [outputs.create(size) for size in self._opened.output_bytes]
        try:
            reports, window_ns = self._exchange(inputs, targets)
            self._at_size.calls += 1
            self._check_inputs(reports, inputs)
            taken = [self._take(target) for target in targets] if verify else []
        finally:
            for descriptor in (*targets, *(one for item in inputs for one in item.descriptors)):
                os.close(descriptor)
        try:
            checks = self._compare(content, taken) if verify else []
        finally:
            for descriptor in taken:
                os.close(descriptor)
        return CallTime(claims_ns=tuple(report.claimed_ns for report in reports), window_ns=window_ns), checks

    def _take(self, target: int) -> int:
        # With device memory the file holds the description alone; the oracle takes the elements by itself.
        is_whole = self._opened.slots is SlotKind.HOST_MEMORY
        return outputs.take(target) if is_whole else outputs.take(target, leading=OUTPUT_HEADER_BYTES)

    def _exchange(self, inputs: list[PreparedInputs], targets: list[int]) -> tuple[list[Report], int]:
        self._number = number = next(self._numbers)
        slots = [(item.file, target, *item.areas) for item, target in zip(inputs, targets, strict=True)]
        limit_s = self._limit_s + (self._first_call_s if not self._at_size.calls else 0.0)
        # Sometimes at the address of the call before, sometimes at a new one; the submission cannot know which.
        reuse = bool(self._at_size.calls) and secrets.randbelow(2) == 1
        start = time.monotonic_ns()
        self._gang.load(number, slots, reuse=reuse, seconds=limit_s, cancelled=self._cancelled)
        reports = self._gang.go(number, seconds=limit_s, cancelled=self._cancelled)
        return reports, time.monotonic_ns() - start

    def _check_inputs(self, reports: list[Report], inputs: list[PreparedInputs]) -> None:
        for rank, (report, prepared) in enumerate(zip(reports, inputs, strict=True)):
            if 0 <= report.detail < len(prepared.tensors):
                name = prepared.tensors[report.detail]
                message = f"rank {rank}: input {name!r} was changed by the call, which the problem does not allow"
                finding = Finding(
                    verdict=Verdict.INPUT_MUTATED, message=message, rank=rank, size=self._at_size.size, output=None
                )
                self._evidence.findings.append(finding)

    def _compare(self, content: int, taken: list[int]) -> list[RankCheck]:
        headers = []
        for rank, descriptor in enumerate(taken):
            try:
                headers.append(outputs.read_header(descriptor))
            except outputs.HeaderError as error:
                message = f"rank {rank}: the output file was written by something other than our shim ({error})"
                self._evidence.findings.append(
                    Finding(verdict=Verdict.TAMPERED, message=message, rank=rank, size=self._at_size.size)
                )
                raise Ended from error
        checks = self._oracle.compare(content, headers, taken, earlier=self._earlier)
        self._at_size.add(checks)
        return checks

    def _replay(self, content: int, checks: list[RankCheck]) -> None:
        """Run wrong contents again: a right answer now means that chance decides."""
        wrong = [item for item in checks if item.verdict in _VALUE_VERDICTS and item.stale is None]
        if not wrong:
            return
        known = len(self._evidence.findings)
        right = 0
        for _ in range(_REPLAYS):
            with contextlib.suppress(Ended):
                _, again = self._run(content, verify=True)
                right += all(item.verdict is None for item in again)
        del self._evidence.findings[known:]
        if right:
            first = wrong[0]
            message = (
                f"rank {first.rank}: wrong at first, and right in {right} of {_REPLAYS} repetitions "
                "on the same contents"
            )
            self._evidence.findings.append(
                Finding(
                    verdict=Verdict.NONDETERMINISTIC,
                    message=message,
                    rank=first.rank,
                    size=self._at_size.size,
                    output=first.output,
                )
            )


def leg_calls(reference_s: float, settings: JudgeSettings, *, is_practice: bool) -> int:
    """How many calls a leg has: about `leg_s` of reference time within the settings' bounds."""
    least, most = settings.min_leg_calls, settings.max_leg_calls
    if is_practice:
        least, most = settings.practice_min_leg_calls, settings.practice_max_leg_calls
    return max(least, min(most, math.ceil(settings.leg_s / max(reference_s, 1e-9))))
