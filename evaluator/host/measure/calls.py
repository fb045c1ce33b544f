"""One call of a submission: fresh inputs in, outputs out, checked by the oracle ranks."""

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from statistics import median

from evaluator.arena.protocol import OUTPUT_HEADER_BYTES
from evaluator.contract import BufferKind, CallKind, CallRecord, Finding, Verdict
from evaluator.host.clock.call_clock import Opening, UnseenEnd
from evaluator.host.hangs.incidents import EvaluationCancelled
from evaluator.host.measure import outputs
from evaluator.host.measure.call_checks import CallChecks, CallPolicy, Exchange
from evaluator.host.measure.evidence import Ended, Evidence, SizeEvidence, wrong_values
from evaluator.host.measure.head_start import HeadStart
from evaluator.host.ranks.oracle_group import (
    NOTHING_MAPPED,
    Comparison,
    Draw,
    OpenedSize,
    OracleGroup,
    PreparedInputs,
    RankCheck,
)
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.judging.checks import Check
from evaluator.oracle.messages import Reader
from problems.schema import Regime

_REPLAYS = 2
_VALUE_VERDICTS = frozenset({Verdict.WRONG_RESULT, Verdict.NOT_FINITE})
_REMEMBERED = 3
_KEY_BYTES = 32
_LATE_S = 0.1
"""How long after a wrong output the judge waits for late writes before it reads the output again."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How one call is made; the submission does not know it.

    Attributes:
        kind: what is special about it.
        key: seals its inputs.
        reuse: whether the inputs lie at the addresses of the call before.
        around: entered while the ranks run the submission.
        recordings: files, one per rank, in which the ranks record what runs.
    """

    kind: CallKind
    key: bytes
    reuse: bool
    around: AbstractContextManager[None]
    recordings: Sequence[int]


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


class Caller:
    """Makes calls at one size. Ranks see a call's number; which draw it uses is secret."""

    def __init__(
        self,
        group: WorkerGroup,
        oracle: OracleGroup,
        *,
        opened: OpenedSize,
        evidence: Evidence,
        at_size: SizeEvidence,
        draws: Iterator[int],
        numbers: Iterator[int],
        reference_s: float,
        first_call_s: float,
        head_start: HeadStart,
        policy: CallPolicy,
    ) -> None:
        settings = policy.settings
        self._group = group
        self._oracle = oracle
        self._opened = opened
        self._evidence = evidence
        self._at_size = at_size
        self._draws = draws
        self._numbers = numbers
        self._first_call_s = first_call_s
        self._head_start = head_start
        self._checks = CallChecks(policy, size=at_size.size, warn=evidence.warn)
        self._policy = policy
        self._limit_s = max(settings.call_limit_s, settings.call_limit_factor * reference_s)
        self._earlier: list[Draw] = []
        self._has_called = False
        self._mapped = [NOTHING_MAPPED] * len(opened.output_bytes)
        self._comparisons_s: list[float] = []

    @property
    def comparing_s(self) -> float:
        """Median seconds of a full comparison so far; 0 before the first."""
        return median(self._comparisons_s) if self._comparisons_s else 0.0

    def call(
        self,
        *,
        verify: bool,
        kind: CallKind = CallKind.PLAIN,
        regime: Regime | None = None,
        around: AbstractContextManager[None] | None = None,
        recordings: Sequence[int] = (),
    ) -> CallRecord:
        """One call on new inputs.

        Args:
            verify: whether the outputs are compared.
            kind: what is special about the call.
            regime: how its inputs differ from those of timed calls.
            around: entered while the ranks run the submission.
            recordings: files, one per rank, in which the ranks record what runs.

        Raises:
            GroupTrouble: the ranks did not all answer.
            Ended: an output is wrong; the findings say how.
        """
        self._check_whether_to_go_on()
        draw = self._draw(kind, regime)
        self._evidence.regime = draw.regime
        outcome = self._run(draw, verify=verify, kind=kind, around=around, recordings=recordings)
        found = list(outcome.findings)
        if not outcome.is_right:
            number = outcome.record.number
            found += wrong_values(outcome.checks, size=self._at_size.size, call=number, kind=kind, regime=regime)
            found += self._explanations(draw, outcome)
        elif any(finding.verdict is Verdict.INCOMPLETE_OUTPUT for finding in found):
            # Storing again exposes a forged record: the rank's own answer comes too late.
            self._is_right_by_now(draw, outcome)
        if found:
            self._evidence.add(found)
            raise Ended
        self._earlier = [*self._earlier[:1], *self._earlier[1:][-_REMEMBERED:], draw]
        return outcome.record

    def loop(self, times: int) -> int:
        """Nanoseconds of `times` calls back to back on the last inputs; raises GroupTrouble."""
        self._check_whether_to_go_on()
        self._evidence.regime = None
        limit_s = self._policy.within(self._limit_s * max(1, times // 10))
        return self._group.loop(next(self._numbers), times=times, seconds=limit_s, cancelled=self._policy.cancelled)

    def _draw(self, kind: CallKind, regime: Regime | None) -> Draw:
        if not self._policy.does(Check.FRESH_INPUTS):
            return Draw(index=0, regime=regime)
        index = next(self._draws)
        if kind is CallKind.NEAR:
            usual = [earlier for earlier in self._earlier if earlier.near is None and earlier.regime is None]
            if usual:
                return Draw(index=index, near=usual[-1].index)
        return Draw(index=index, regime=regime)

    def _check_whether_to_go_on(self) -> None:
        if self._policy.cancelled():
            raise EvaluationCancelled("the evaluation was cancelled")
        if time.monotonic() > self._policy.hold.deadline:
            message = f"the evaluation took longer than {self._policy.settings.evaluation_s:g} s"
            self._evidence.add([self._checks.finding(Verdict.TIMEOUT, message)])
            raise Ended

    def _run(
        self,
        draw: Draw,
        *,
        verify: bool,
        kind: CallKind,
        around: AbstractContextManager[None] | None = None,
        recordings: Sequence[int] = (),
    ) -> Outcome:
        poison, poison_number = self._new_poison()
        manner = Manner(
            kind=kind,
            key=secrets.token_bytes(_KEY_BYTES),
            # Sometimes at the address of the call before, sometimes at a new one; the submission cannot know which.
            reuse=self._has_called and (kind is CallKind.NEAR or secrets.randbelow(2) == 1),
            around=around or nullcontext(),
            recordings=recordings,
        )
        key = manner.key
        inputs = self._oracle.prepare(
            draw,
            groups=self._opened.groups,
            key=key,
            reuse=manner.reuse,
            poison=poison_number,
            reader=Reader.SANDBOX,
            mapped=self._mapped,
        )
        with ExitStack() as held:
            held.callback(outputs.close_all, [one for item in inputs for one in item.descriptors])
            targets = self._targets(poison)
            held.callback(outputs.close_all, targets)
            self._at_size.note_payload(inputs, self._opened.output_bytes)
            exchange = self._exchange(inputs, targets, manner)
            self._at_size.calls += 1
            findings = self._checks.claimed(exchange, inputs)
            taken = [self._take(target) for target in targets]
            held.callback(outputs.close_all, taken)
            headers = [self._header(rank, descriptor) for rank, descriptor in enumerate(taken)]
            if verify:
                compared = self._compare(draw, headers, taken, key=key, poison=poison_number)
                findings += self._checks.changed(compared)
            else:
                compared = None
            traces = compared.traces if compared is not None else self._oracle.take_marks(headers, taken, key=key)
        if self._policy.does(Check.FINGERPRINT):
            findings += self._checks.altered(exchange, traces)
        return self._concluded(draw, kind, exchange, compared, findings)

    def _exchange(self, inputs: list[PreparedInputs], targets: list[int], manner: Manner) -> Exchange:
        number = next(self._numbers)
        limit_s = self._policy.within(self._limit_s + (0.0 if self._has_called else self._first_call_s))
        delays = self._delays(len(inputs)) if manner.kind is CallKind.SKEWED else (0,) * len(inputs)
        is_on_device = self._opened.buffers is BufferKind.DEVICE_MEMORY
        files = [(item.file, target, *item.areas) for item, target in zip(inputs, targets, strict=True)]
        cancelled = self._policy.cancelled
        self._group.load(
            number,
            files if is_on_device else [(target,) for target in targets],
            seconds=limit_s,
            cancelled=cancelled,
        )
        self._mapped = [item.areas_number for item in inputs]
        if manner.recordings:
            self._group.record(number, manner.recordings, seconds=limit_s, cancelled=cancelled)
        opening = Opening(
            key=manner.key,
            head_s=self._head_start.seconds,
            waits_for_queue=self._head_start.waits_for_queue,
            delays_us=delays,
        )
        try:
            watched = self._oracle.watching(limit_s=limit_s) if is_on_device else nullcontext()
            with watched, manner.around:
                reports, time_taken = self._group.go(
                    number,
                    opening=opening,
                    inputs=() if is_on_device else [item.file for item in inputs],
                    reuse=manner.reuse,
                    count=manner.kind is not CallKind.PLAIN and self._policy.counts_collectives,
                    seconds=limit_s,
                    cancelled=cancelled,
                )
        except UnseenEnd as unseen:
            message = f"rank {unseen.ranks[0]} answered call {number}, but its device never posted the end of the call"
            self._evidence.add([self._checks.finding(Verdict.TAMPERED, message, rank=unseen.ranks[0])])
            raise Ended from unseen
        self._has_called = True
        self._head_start.note(time_taken)
        return Exchange(number=number, reports=reports, time=time_taken, is_reused=manner.reuse, delays_us=delays)

    def _delays(self, world_size: int) -> tuple[int, ...]:
        """A secret delay for some ranks, at least one and not all."""
        least, most = self._policy.timing_policy.skew_us
        late = set(secrets.SystemRandom().sample(range(world_size), 1 + secrets.randbelow(max(1, world_size - 1))))
        return tuple(least + secrets.randbelow(most - least) if rank in late else 0 for rank in range(world_size))

    def _concluded(
        self,
        draw: Draw,
        kind: CallKind,
        exchange: Exchange,
        compared: Comparison | None,
        findings: list[Finding],
    ) -> Outcome:
        checks = () if compared is None else tuple(compared.checks)
        record = CallRecord(
            number=exchange.number,
            kind=kind,
            draw=draw.index,
            near=draw.near,
            is_reused=exchange.is_reused,
            is_checked=compared is not None,
            delays_us=exchange.delays_us,
            done_ns=exchange.time.done_ns,
            head_ns=exchange.time.head_ns,
            has_queued=exchange.time.has_queued,
            claimed_ns=tuple(report.claimed_ns for report in exchange.reports),
            marks=exchange.time.marks,
            max_error=max((item.check.max_error for item in checks), default=None),
            rms_error=max((item.check.rms_error for item in checks), default=None),
            digests=() if compared is None else compared.digests,
            regime="" if draw.regime is None else draw.regime.name,
        )
        self._at_size.records.append(record)
        return Outcome(record=record, checks=checks, findings=tuple(findings))

    def _new_poison(self) -> tuple[bytes, int | None]:
        """What fills outputs before a call, as bytes and as a number; nothing where the check is off."""
        if not self._policy.does(Check.POISON):
            return b"", None
        poison = outputs.new_poison()
        return poison, int.from_bytes(poison, "little")

    def _targets(self, poison: bytes) -> list[int]:
        """An output file per rank. With device memory the oracle poisons it, and the file holds only descriptions."""
        in_file = poison if self._opened.buffers is BufferKind.HOST_MEMORY else b""
        return outputs.create_all(self._opened.output_bytes, poison=in_file)

    def _take(self, target: int) -> int:
        # With device memory the file holds only the description; the oracle copies the elements.
        is_whole = self._opened.buffers is BufferKind.HOST_MEMORY
        return outputs.take(target) if is_whole else outputs.take(target, leading=OUTPUT_HEADER_BYTES)

    def _compare(
        self,
        draw: Draw,
        headers: Sequence[list[dict[str, object]]],
        taken: list[int],
        *,
        key: bytes,
        poison: int | None,
    ) -> Comparison:
        start = time.monotonic()
        compared = self._oracle.compare(draw, headers, taken, key=key, earlier=self._earlier, poison=poison)
        self._comparisons_s.append(time.monotonic() - start)
        checks = [item for item in compared.checks if self._counts(item)]
        self._at_size.add(checks)
        return replace(compared, checks=checks)

    def _counts(self, item: RankCheck) -> bool:
        is_value = item.verdict in _VALUE_VERDICTS
        return (not is_value or self._policy.does(Check.VALUES)) and (
            item.rank == 0 or self._policy.does(Check.EVERY_RANK)
        )

    def _header(self, rank: int, descriptor: int) -> list[dict[str, object]]:
        try:
            return outputs.read_header(descriptor)
        except outputs.HeaderError as error:
            message = f"rank {rank}: something other than the judge's shim wrote the output file ({error})"
            self._evidence.add([self._checks.finding(Verdict.TAMPERED, message, rank=rank)])
            raise Ended from error

    # ---- why values are wrong ---------------------------------------------------------------------------------

    def _explanations(self, draw: Draw, outcome: Outcome) -> list[Finding]:
        """Why values are wrong: written too late, never written, or correct by chance."""
        wrong = [item for item in outcome.checks if item.verdict in _VALUE_VERDICTS and item.stale is None]
        if not wrong:
            return []
        unwritten = [
            self._checks.finding(
                Verdict.INCOMPLETE_OUTPUT,
                f"rank {item.rank}: {item.unwritten:.1%} of output {item.output!r} was never written",
                rank=item.rank,
                output=item.output,
            )
            for item in wrong
            if item.unwritten
        ]
        first = wrong[0]
        if self._is_right_by_now(draw, outcome):
            message = (
                f"rank {first.rank}, call {outcome.record.number}: output {first.output!r} was wrong when the call "
                "ended and correct a little later, so something was still writing to it"
            )
            late = self._checks.finding(Verdict.INCOMPLETE_OUTPUT, message, rank=first.rank, output=first.output)
            return [*unwritten, late]
        return unwritten or self._replayed(draw, first)

    def _is_right_by_now(self, draw: Draw, outcome: Outcome) -> bool:
        """Whether the returned outputs are correct when they are stored again."""
        time.sleep(_LATE_S)
        targets = self._targets(b"")
        try:
            limit_s = self._policy.within(self._limit_s)
            self._group.store(outcome.record.number, targets, seconds=limit_s, cancelled=self._policy.cancelled)
            headers = [outputs.read_header(target) for target in targets]
            compared = self._compare(draw, headers, targets, key=bytes(_KEY_BYTES), poison=None)
        except outputs.HeaderError:
            return False
        finally:
            outputs.close_all(targets)
        return all(item.verdict is None for item in compared.checks)

    def _replayed(self, draw: Draw, first: RankCheck) -> list[Finding]:
        """Call again on inputs with a wrong output: a correct one now means that chance decides."""
        again = [self._run(draw, verify=True, kind=CallKind.REPEATED) for _ in range(_REPLAYS)]
        right = sum(outcome.is_right for outcome in again)
        if not right:
            return []
        message = (
            f"rank {first.rank}: wrong at first, and correct in {right} of {_REPLAYS} repetitions on the same inputs"
        )
        return [self._checks.finding(Verdict.NONDETERMINISTIC, message, rank=first.rank, output=first.output)]
