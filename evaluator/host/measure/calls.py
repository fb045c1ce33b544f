"""One call of a submission: fresh contents in, outputs out, checked by the oracle ranks."""

import contextlib
import dataclasses
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median

import msgspec

from evaluator.arena.protocol import OUTPUT_HEADER_BYTES, Report
from evaluator.contract import Backend, Burst, CallKind, CallRecord, Finding, Mode, SlotKind, Verdict
from evaluator.hardware.profiles import Vigilance
from evaluator.host.hangs.incidents import EvaluationCancelled
from evaluator.host.measure import outputs
from evaluator.host.measure.evidence import Ended, Evidence, SizeEvidence
from evaluator.host.ranks.oracle_group import Comparison, Content, OpenedSize, OracleGroup, PreparedInputs, RankCheck
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.settings import JudgeSettings
from evaluator.judging.checks import Check

_REPLAYS = 2
_VALUE_VERDICTS = frozenset({Verdict.WRONG_RESULT, Verdict.NOT_FINITE})
_REMEMBERED = 3
_LATE_S = 0.1
"""How long a late writer is given before what it wrote is looked at; only after a wrong answer."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What the host sent and saw in one call, before anything is compared."""

    number: int
    reports: list[Report]
    window_ns: int
    answers_ns: tuple[int, ...]
    is_reused: bool
    delays_us: tuple[int, ...]

    @property
    def answer_ns(self) -> int:
        """From GO to the last answer."""
        return max(self.answers_ns)


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """How calls are made in one evaluation: the profile's vigilance, the slot's settings, and what is asked for."""

    vigilance: Vigilance
    settings: JudgeSettings
    backend: Backend
    mode: Mode
    deadline: float
    cancelled: Callable[[], bool]

    def does(self, check: Check) -> bool:
        """Whether `check` is not switched off."""
        return check not in self.settings.without

    @property
    def counts_collectives(self) -> bool:
        """Whether library collectives may not move this submission's data."""
        return self.backend is not Backend.PYTORCH and self.does(Check.COLLECTIVES)


class Caller:
    """Makes calls at one size. The number on the channel counts calls; which contents they carry is secret."""

    def __init__(
        self,
        gang: WorkerGroup,
        oracle: OracleGroup,
        *,
        opened: OpenedSize,
        evidence: Evidence,
        at_size: SizeEvidence,
        contents: Iterator[int],
        numbers: Iterator[int],
        reference_s: float,
        first_call_s: float,
        conduct: Conduct,
    ) -> None:
        settings = conduct.settings
        self._gang = gang
        self._oracle = oracle
        self._opened = opened
        self._evidence = evidence
        self._at_size = at_size
        self._contents = contents
        self._numbers = numbers
        self._first_call_s = first_call_s
        self._conduct = conduct
        self._limit_s = max(settings.call_limit_s, settings.call_limit_factor * reference_s)
        self._earlier: list[Content] = []
        self._has_called = False
        self._comparisons_s: list[float] = []
        self._is_cut_off = False

    def call(
        self,
        *,
        verify: bool,
        kind: CallKind = CallKind.PLAIN,
        around: AbstractContextManager[None] | None = None,
        audits: Sequence[int] = (),
    ) -> CallRecord:
        """One call on new contents.

        Args:
            verify: whether what comes back is compared.
            kind: what is special about the call.
            around: is entered while the ranks run the submission.
            audits: files, one per rank, in which the ranks record what runs.

        Raises:
            GroupTrouble: the ranks did not all answer.
            Ended: what came back is wrong; the findings say how.
        """
        self._check_whether_to_go_on()
        content = self._draw(kind)
        record, checks = self._run(content, verify=verify, kind=kind, around=around, audits=audits)
        if any(item.verdict is not None for item in checks):
            self._evidence.add_wrong(checks, size=self._at_size.size, call=record.number, kind=kind)
            self._explain(content, record, checks)
        elif any(finding.verdict is Verdict.INCOMPLETE_OUTPUT for finding in self._evidence.findings):
            # Asking once more shows a rank that was answered for by a forged record: its own answer comes too late.
            self._is_right_by_now(content, record)
        if self._evidence.findings:
            raise Ended
        self._earlier = [*self._earlier[:1], *self._earlier[1:][-_REMEMBERED:], content]
        return record

    def burst(self, calls: int) -> Burst | None:
        """`calls` calls one after the other on new contents, between one GO and one answer; one of several is compared.

        None where the contents of one are too long for the room that the first has made.

        Raises:
            GroupTrouble: the ranks did not all answer.
            Ended: what came back is wrong; the findings say how.
        """
        self._check_whether_to_go_on()
        contents = [self._draw(CallKind.PLAIN) for _ in range(calls)]
        poison, number = self._new_poison()
        with contextlib.ExitStack() as held:
            prepared = []
            for place, content in enumerate(contents):
                inputs = self._oracle.prepare(
                    content,
                    groups=self._opened.groups,
                    poison=number,
                    place=place,
                    places=calls,
                    anew=self._is_cut_off,
                )
                self._is_cut_off = not inputs
                if not inputs:
                    return None
                held.callback(_close, [one for item in inputs for one in item.descriptors])
                prepared.append(inputs)
            targets = [self._targets(poison) for _ in contents]
            held.callback(_close, [one for files in targets for one in files])
            window_ns, answer_ns = self._run_together(prepared, targets)
            self._at_size.calls += calls
            burst = Burst(calls=calls, window_ns=window_ns, answer_ns=answer_ns)
            if calls == 1 or not self._conduct.does(Check.TIMED_CALLS):
                return burst
            # All outputs lie in place; which of them will be looked at, nobody could know.
            chosen = secrets.randbelow(calls)
            taken = [self._take(target) for target in targets[chosen]]
            held.callback(_close, taken)
            rooms = [item.room for item in prepared[chosen]]
            compared = self._compare(contents[chosen], taken, poison=number, rooms=rooms)
        self._evidence.add_wrong(compared.checks, size=self._at_size.size, call=chosen + 1, kind=CallKind.BURST)
        if self._evidence.findings:
            raise Ended
        return msgspec.structs.replace(burst, checked=(contents[chosen].index,))

    def _run_together(self, prepared: list[list[PreparedInputs]], targets: list[list[int]]) -> tuple[int, int]:
        """A burst's window and answer in nanoseconds."""
        limit_s, cancelled = self._limit_s * len(prepared), self._conduct.cancelled
        number = 0
        start = time.monotonic_ns()
        for inputs, files in zip(prepared, targets, strict=True):
            number = next(self._numbers)
            slots = [(item.file, file, *item.areas) for item, file in zip(inputs, files, strict=True)]
            self._gang.load(number, slots, reuse=False, held=True, seconds=limit_s, cancelled=cancelled)
        if self._opened.slots is SlotKind.DEVICE_MEMORY:
            # The files hold descriptions alone: only now do contents appear.
            start = time.monotonic_ns()
            self._oracle.publish()
        released = time.monotonic_ns()
        self._gang.go(number, seconds=limit_s, cancelled=cancelled)
        answered = time.monotonic_ns()
        return answered - start, answered - released

    @property
    def payload_bytes(self) -> int:
        """The most that a rank took in and gave back in a call so far."""
        return self._at_size.payload_bytes

    @property
    def comparing_s(self) -> float:
        """What comparing a call in full takes, in seconds: the median so far, 0 before the first."""
        return median(self._comparisons_s) if self._comparisons_s else 0.0

    def _draw(self, kind: CallKind) -> Content:
        if not self._conduct.does(Check.FRESH_CONTENTS):
            return Content(index=0)
        index = next(self._contents)
        if kind is CallKind.NEAR and self._earlier and self._earlier[-1].near is None:
            return Content(index=index, near=self._earlier[-1].index)
        return Content(index=index)

    def _check_whether_to_go_on(self) -> None:
        if self._conduct.cancelled():
            raise EvaluationCancelled("the evaluation was cancelled")
        if time.monotonic() > self._conduct.deadline:
            message = f"the evaluation took longer than {self._conduct.settings.evaluation_s:g} s"
            self._note(Verdict.TIMEOUT, message)
            raise Ended

    def _run(
        self,
        content: Content,
        *,
        verify: bool,
        kind: CallKind,
        around: AbstractContextManager[None] | None = None,
        audits: Sequence[int] = (),
    ) -> tuple[CallRecord, list[RankCheck]]:
        poison, number = self._new_poison()
        inputs = self._oracle.prepare(content, groups=self._opened.groups, poison=number, anew=self._is_cut_off)
        self._is_cut_off = False
        targets = self._targets(poison)
        self._at_size.note_payload(inputs, self._opened.output_bytes)
        try:
            exchange = self._exchange(inputs, targets, kind, around or contextlib.nullcontext(), audits)
            self._at_size.calls += 1
            self._check_claims(exchange, inputs)
            taken = [self._take(target) for target in targets] if verify else []
        finally:
            for descriptor in (*targets, *(one for item in inputs for one in item.descriptors)):
                os.close(descriptor)
        try:
            compared = self._compare(content, taken, poison=number) if verify else None
        finally:
            for descriptor in taken:
                os.close(descriptor)
        return self._conclude(content, kind, exchange, compared)

    def _conclude(
        self, content: Content, kind: CallKind, exchange: Exchange, compared: Comparison | None
    ) -> tuple[CallRecord, list[RankCheck]]:
        """Keep the call's record, and hold the ranks' fingerprints against what was taken."""
        checks = [] if compared is None else compared.checks
        record = CallRecord(
            number=exchange.number,
            kind=kind,
            content=content.index,
            near=content.near,
            is_reused=exchange.is_reused,
            is_checked=compared is not None,
            delays_us=exchange.delays_us,
            window_ns=exchange.window_ns,
            answer_ns=exchange.answer_ns,
            claimed_ns=tuple(report.claimed_ns for report in exchange.reports),
            settled_ns=tuple(report.settled_ns for report in exchange.reports),
            fingerprints=tuple(f"{report.fingerprint & (2**64 - 1):016x}" for report in exchange.reports),
            max_error=max((item.check.max_error for item in checks), default=None),
            rms_error=max((item.check.rms_error for item in checks), default=None),
            answers_ns=exchange.answers_ns,
            digests=() if compared is None else compared.digests,
        )
        self._at_size.records.append(record)
        if compared is not None and self._conduct.does(Check.FINGERPRINT):
            self._check_fingerprints(exchange, compared)
        return record, checks

    def _new_poison(self) -> tuple[bytes, int | None]:
        """What outputs are filled with before a call, as bytes and as a number; nothing where that is switched off."""
        if not self._conduct.does(Check.POISON):
            return b"", None
        poison = outputs.new_poison()
        return poison, int.from_bytes(poison, "little")

    def _targets(self, poison: bytes) -> list[int]:
        """An output file per rank; device memory is poisoned by the oracle, the file then holds descriptions alone."""
        in_file = poison if self._opened.slots is SlotKind.HOST_MEMORY else b""
        return [outputs.create(size, poison=in_file) for size in self._opened.output_bytes]

    def _take(self, target: int) -> int:
        # With device memory the file holds the description alone; the oracle takes the elements by itself.
        is_whole = self._opened.slots is SlotKind.HOST_MEMORY
        return outputs.take(target) if is_whole else outputs.take(target, leading=OUTPUT_HEADER_BYTES)

    def _exchange(
        self,
        inputs: list[PreparedInputs],
        targets: list[int],
        kind: CallKind,
        around: AbstractContextManager[None],
        audits: Sequence[int],
    ) -> Exchange:
        number = next(self._numbers)
        slots = [(item.file, target, *item.areas) for item, target in zip(inputs, targets, strict=True)]
        limit_s = self._limit_s + (0.0 if self._has_called else self._first_call_s)
        # Sometimes at the address of the call before, sometimes at a new one; the submission cannot know which.
        reuse = self._has_called and (kind is CallKind.NEAR or secrets.randbelow(2) == 1)
        self._has_called = True
        delays = self._delays(len(inputs)) if kind is CallKind.SKEWED else (0,) * len(inputs)
        cancelled = self._conduct.cancelled
        start = time.monotonic_ns()
        if self._opened.slots is SlotKind.DEVICE_MEMORY:
            self._oracle.publish()
        self._gang.load(number, slots, reuse=reuse, seconds=limit_s, cancelled=cancelled)
        released = time.monotonic_ns()
        with around:
            reports = self._gang.go(
                number,
                delays_us=delays,
                count=kind is not CallKind.PLAIN and self._conduct.counts_collectives,
                audits=audits,
                seconds=limit_s,
                cancelled=cancelled,
            )
        answered = time.monotonic_ns()
        return Exchange(
            number=number,
            reports=reports,
            window_ns=answered - start,
            answers_ns=tuple(at - released for at in self._gang.answered_at_ns),
            is_reused=reuse,
            delays_us=delays,
        )

    def _delays(self, world_size: int) -> tuple[int, ...]:
        """A secret delay for some ranks, at least one and not all."""
        least, most = self._conduct.vigilance.skew_us
        late = set(secrets.SystemRandom().sample(range(world_size), 1 + secrets.randbelow(max(1, world_size - 1))))
        return tuple(least + secrets.randbelow(most - least) if rank in late else 0 for rank in range(world_size))

    def _check_claims(self, exchange: Exchange, inputs: list[PreparedInputs]) -> None:
        """What the ranks themselves say against a call: a changed input, a library collective."""
        for rank, (report, prepared) in enumerate(zip(exchange.reports, inputs, strict=True)):
            if self._conduct.does(Check.INPUTS) and 0 <= report.detail < len(prepared.tensors):
                name = prepared.tensors[report.detail]
                message = f"rank {rank}: input {name!r} was changed by the call, which the problem does not allow"
                self._note(Verdict.INPUT_MUTATED, message, rank=rank)
            if report.moved and self._conduct.counts_collectives:
                self._add_collectives(rank, report.moved)

    def _add_collectives(self, rank: int, moved: int) -> None:
        message = (
            f"rank {rank}: {moved} collective(s) of torch.distributed moved tensors inside solution; only backend "
            "pytorch may use them for the problem's data"
        )
        finding = Finding(verdict=Verdict.FORBIDDEN, message=message, rank=rank, size=self._at_size.size)
        if self._conduct.mode is Mode.RANKED:
            self._evidence.findings.append(finding)
        else:
            self._evidence.warn(finding)

    def _check_fingerprints(self, exchange: Exchange, compared: Comparison) -> None:
        for rank, (report, seen) in enumerate(zip(exchange.reports, compared.fingerprints, strict=True)):
            if seen is not None and seen != report.fingerprint:
                message = (
                    f"rank {rank}, call {exchange.number}: the output changed between the return of the call and the "
                    "moment when it was taken"
                )
                self._note(Verdict.INCOMPLETE_OUTPUT, message, rank=rank)

    def _compare(
        self, content: Content, taken: list[int], *, poison: int | None, rooms: Sequence[int] | None = None
    ) -> Comparison:
        headers = [self._header(rank, descriptor) for rank, descriptor in enumerate(taken)]
        start = time.monotonic()
        compared = self._oracle.compare(content, headers, taken, earlier=self._earlier, poison=poison, rooms=rooms)
        self._comparisons_s.append(time.monotonic() - start)
        checks = [item for item in compared.checks if self._counts(item)]
        self._at_size.add(checks)
        return dataclasses.replace(compared, checks=checks)

    def _counts(self, item: RankCheck) -> bool:
        is_value = item.verdict in _VALUE_VERDICTS
        return (not is_value or self._conduct.does(Check.VALUES)) and (
            item.rank == 0 or self._conduct.does(Check.EVERY_RANK)
        )

    def _header(self, rank: int, descriptor: int) -> list[dict[str, object]]:
        try:
            return outputs.read_header(descriptor)
        except outputs.HeaderError as error:
            message = f"rank {rank}: the output file was written by something other than our shim ({error})"
            self._note(Verdict.TAMPERED, message, rank=rank)
            raise Ended from error

    def _explain(self, content: Content, record: CallRecord, checks: Sequence[RankCheck]) -> None:
        """Find out why values are wrong: written too late, never written, or right by chance."""
        wrong = [item for item in checks if item.verdict in _VALUE_VERDICTS and item.stale is None]
        if not wrong:
            return
        for item in wrong:
            if item.unwritten:
                message = f"rank {item.rank}: {item.unwritten:.1%} of output {item.output!r} was never written"
                self._note(Verdict.INCOMPLETE_OUTPUT, message, rank=item.rank, output=item.output)
        if self._is_right_by_now(content, record):
            first = wrong[0]
            message = (
                f"rank {first.rank}, call {record.number}: output {first.output!r} was wrong when the call returned "
                "and right a little later: something went on writing to it"
            )
            self._note(Verdict.INCOMPLETE_OUTPUT, message, rank=first.rank, output=first.output)
        elif not any(item.unwritten for item in wrong):
            self._replay(content, wrong[0])

    def _is_right_by_now(self, content: Content, record: CallRecord) -> bool:
        """Whether what the ranks returned, taken once more, is right."""
        known = len(self._evidence.findings)
        time.sleep(_LATE_S)
        targets = self._targets(b"")
        try:
            self._gang.store(record.number, targets, seconds=self._limit_s, cancelled=self._conduct.cancelled)
            compared = self._compare(content, targets, poison=None)
        except Ended:
            return False
        finally:
            del self._evidence.findings[known:]
            for descriptor in targets:
                os.close(descriptor)
        return all(item.verdict is None for item in compared.checks)

    def _replay(self, content: Content, first: RankCheck) -> None:
        """Run wrong contents again: a right answer now means that chance decides."""
        known = len(self._evidence.findings)
        right = 0
        for _ in range(_REPLAYS):
            with contextlib.suppress(Ended):
                _, again = self._run(content, verify=True, kind=CallKind.REPEATED)
                right += all(item.verdict is None for item in again)
        del self._evidence.findings[known:]
        if right:
            message = (
                f"rank {first.rank}: wrong at first, and right in {right} of {_REPLAYS} repetitions "
                "on the same contents"
            )
            self._note(Verdict.NONDETERMINISTIC, message, rank=first.rank, output=first.output)

    def _note(self, verdict: Verdict, message: str, *, rank: int | None = None, output: str | None = None) -> None:
        finding = Finding(verdict=verdict, message=message, rank=rank, size=self._at_size.size, output=output)
        self._evidence.findings.append(finding)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
