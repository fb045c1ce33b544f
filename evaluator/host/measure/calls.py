"""One call of a submission: fresh inputs in, outputs out, checked by the oracle ranks."""

import secrets
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

from evaluator.contract import CallKind, CallRecord, Finding, Verdict
from evaluator.host.hangs.incidents import EvaluationCancelled
from evaluator.host.measure import outputs
from evaluator.host.measure.call_checks import Exchange, Outcome
from evaluator.host.measure.call_outputs import CallOutputs
from evaluator.host.measure.call_setup import CallSetup
from evaluator.host.measure.evidence import Ended
from evaluator.host.measure.exchange import KEY_BYTES, Exchanges, Manner
from evaluator.host.measure.wrong_outputs import WhyWrong, wrong_values
from evaluator.host.ranks.oracle_group import Comparison, Draw
from evaluator.judging.checks import Check
from evaluator.oracle.messages import Reader
from problems.spec.schema import Regime


class Caller:
    """Makes calls at one size. Ranks see a call's number; which draw it uses is secret.

    Attributes:
        regime: of the call that is being made, or was made last; None for the inputs of timed calls.
    """

    def __init__(self, setup: CallSetup) -> None:
        self._oracle = setup.group_setup.trusted.oracle
        self._draws = setup.group_setup.draws
        self._policy = setup.group_setup.policy
        self._opened = setup.opened
        self._at_size = setup.at_size
        self._checks = setup.checks
        self.regime: Regime | None = None
        self._exchanges = Exchanges(setup)
        self._outputs = CallOutputs(setup)
        self._why_wrong = WhyWrong(self._exchanges, self._outputs, checks=setup.checks, again=self._repeat)

    @property
    def comparing_s(self) -> float:
        """Median seconds of a full comparison so far; 0 before the first."""
        return self._outputs.comparing_s

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
            Ended: an output is wrong; its findings say how.
        """
        self._check_whether_to_go_on()
        draw = self._draw(kind, regime)
        self.regime = draw.regime
        outcome = self._run(draw, self._manner(kind, around=around, recordings=recordings), verify=verify)
        if found := self._against(draw, outcome, kind=kind, regime=regime):
            raise Ended(found)
        self._outputs.remember(draw)
        return outcome.record

    def loop(self, times: int) -> int:
        """Nanoseconds of `times` calls back to back on the last inputs; raises GroupTrouble."""
        self._check_whether_to_go_on()
        self.regime = None
        return self._exchanges.loop(times)

    def _check_whether_to_go_on(self) -> None:
        if self._policy.cancelled():
            raise EvaluationCancelled("the evaluation was cancelled")
        if time.monotonic() > self._policy.deadlines.evaluation:
            message = f"the evaluation took longer than {self._policy.settings.evaluation_s:g} s"
            raise Ended([self._checks.finding(Verdict.TIMEOUT, message)])

    def _draw(self, kind: CallKind, regime: Regime | None) -> Draw:
        if not self._policy.does(Check.FRESH_INPUTS):
            return Draw(index=0, regime=regime)
        index = next(self._draws)
        if kind is CallKind.NEAR:
            usual = [earlier for earlier in self._outputs.earlier if earlier.near is None and earlier.regime is None]
            if usual:
                return Draw(index=index, near=usual[-1].index)
        return Draw(index=index, regime=regime)

    def _manner(
        self, kind: CallKind, *, around: AbstractContextManager[None] | None = None, recordings: Sequence[int] = ()
    ) -> Manner:
        return Manner(
            kind=kind,
            key=secrets.token_bytes(KEY_BYTES),
            # Sometimes at the address of the call before, sometimes at a new one; the submission cannot know which.
            reuse=self._exchanges.has_called and (kind is CallKind.NEAR or secrets.randbelow(2) == 1),
            around=around or nullcontext(),
            recordings=recordings,
        )

    def _against(self, draw: Draw, outcome: Outcome, *, kind: CallKind, regime: Regime | None) -> list[Finding]:
        """What speaks against a call, with the reasons."""
        found = list(outcome.findings)
        if not outcome.is_right:
            number = outcome.record.number
            found += wrong_values(outcome.checks, size=self._at_size.size, call=number, kind=kind, regime=regime)
            found += self._why_wrong.explain(draw, outcome)
        elif any(finding.verdict is Verdict.INCOMPLETE_OUTPUT for finding in found):
            # Storing again exposes a forged record: the rank's own answer comes too late.
            self._why_wrong.is_correct_by_now(draw, outcome)
        return found

    def _repeat(self, draw: Draw) -> Outcome:
        return self._run(draw, self._manner(CallKind.REPEATED), verify=True)

    def _run(self, draw: Draw, manner: Manner, *, verify: bool) -> Outcome:
        """Make one call and check it."""
        poison, poison_number = self._new_poison()
        inputs = self._oracle.prepare(
            draw,
            groups=self._opened.groups,
            key=manner.key,
            reuse=manner.reuse,
            poison=poison_number,
            reader=Reader.SANDBOX,
            mapped=self._exchanges.mapped,
        )
        with ExitStack() as held:
            held.callback(outputs.close_all, [one for item in inputs for one in item.descriptors])
            targets = self._outputs.new_files(poison)
            held.callback(outputs.close_all, targets)
            self._at_size.note_payload(inputs, self._opened.output_bytes)
            exchange = self._exchanges.make(inputs, targets, manner)
            self._at_size.calls += 1
            files = [self._outputs.take(target) for target in targets]
            held.callback(outputs.close_all, files)
            findings = self._checks.claimed(exchange, inputs)
            compared, late = self._compared(draw, exchange, files, manner, poison=poison_number, verify=verify)
        outcome = _outcome(draw, exchange, compared, kind=manner.kind, findings=(*findings, *late))
        self._at_size.records.append(outcome.record)
        return outcome

    def _compared(
        self, draw: Draw, exchange: Exchange, files: list[int], manner: Manner, *, poison: int | None, verify: bool
    ) -> tuple[Comparison | None, list[Finding]]:
        """The comparison of the outputs in `files`, where they are to be compared; and what they show in any case."""
        taken, compared, found = self._outputs.read(files), None, []
        if verify:
            compared = self._outputs.compare(draw, taken, key=manner.key, poison=poison)
            found = self._checks.changed(compared)
            traces = compared.traces
        else:
            traces = self._oracle.take_marks(taken.headers, taken.files, key=manner.key)
        if self._policy.does(Check.FINGERPRINT):
            found += self._checks.altered(exchange, traces)
        return compared, found

    def _new_poison(self) -> tuple[bytes, int | None]:
        """What fills outputs before a call, as bytes and as a number; nothing where the check is off."""
        if not self._policy.does(Check.POISON):
            return b"", None
        poison = outputs.new_poison()
        return poison, int.from_bytes(poison, "little")


def _outcome(
    draw: Draw, exchange: Exchange, compared: Comparison | None, *, kind: CallKind, findings: tuple[Finding, ...]
) -> Outcome:
    """What was sent, observed and found in one call."""
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
    return Outcome(record=record, checks=checks, findings=findings)
