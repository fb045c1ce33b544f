"""One call of a submission: fresh inputs in, the gates open, outputs out, checked by the oracle ranks."""

import secrets
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from statistics import median

from evaluator.arena.protocol import OUTPUT_HEADER_BYTES
from evaluator.contract import BufferKind, CallKind, CallRecord, Finding, Verdict
from evaluator.host.clock.call_clock import Opening, UnseenEnd
from evaluator.host.measure import checks, outputs
from evaluator.host.measure.evidence import Call, Ended, SizeEvidence
from evaluator.host.measure.group_run import GroupRun
from evaluator.host.measure.launch_ahead import LaunchAhead, MetLayouts
from evaluator.host.measure.references import ReferenceClock
from evaluator.host.ranks.oracle_group import NOTHING_MAPPED, Comparison, InputSpec, OpenedSize, Outputs
from evaluator.judging.checks import Check
from evaluator.oracle.messages import CheckedOutput, Reader
from problems.spec.schema import Regime

_KEY_BYTES = 32
"""The length of the key that seals a call's inputs."""

_REMEMBERED, _REPLAYS = 3, 2
_MOST_COPIED = 1 << 28
"""Bytes of a rank's inputs up to which another call follows at once, which takes memory for them and its outputs."""

_LATE_S = 0.1
"""How long after a wrong output the judge waits for late writes before it reads the output again."""


class Caller:
    """Makes calls at one size. Ranks see a call's number; which draw it uses is secret.

    Args:
        run: the worker group, and what all its sizes have in common.
        opened: the size as the oracle ranks have opened it.
        at_size: takes what the calls show.
        launch_ahead: learns from the calls how long ranks may queue work.
        reference_s: the time of a call of the reference.

    Attributes:
        job: what is judged.
        input_bytes: the most that a rank took in in the last call.
        regime: of the call that is being made, or was made last; None for the inputs of timed calls.
    """

    def __init__(
        self, run: GroupRun, *, opened: OpenedSize, at_size: SizeEvidence, launch_ahead: LaunchAhead, reference_s: float
    ) -> None:
        self._run, self.job = run, run.job
        self._oracle, self._ranks = run.trusted.oracle, run.group
        self._opened = opened
        self._at_size = at_size
        self._launch_ahead = launch_ahead
        self._layouts = MetLayouts()
        settings = run.job.settings
        self._limit_s = max(settings.call_limit_s, settings.call_limit_factor * reference_s)
        self._is_on_device = opened.buffers is BufferKind.DEVICE_MEMORY
        # By rank, the number of the device memory that it has mapped.
        self._mapped = [NOTHING_MAPPED] * opened.ranks
        self._earlier: list[InputSpec] = []
        self._comparisons_s: list[float] = []
        self._punctual: set[int] = set()
        self.input_bytes = 0
        self.regime: Regime | None = None

    @property
    def comparing_s(self) -> float:
        """Median seconds of a full comparison so far; 0 before the first."""
        return median(self._comparisons_s) if self._comparisons_s else 0.0

    @property
    def limit_s(self) -> float:
        """Seconds that the next call may take; the first of a size may compile."""
        return self._limit_s + (0.0 if self._at_size.calls else self._run.first_call_s)

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
            WorkerGroupFailure: the ranks did not all answer.
            Ended: an output is wrong; its findings say how.
        """
        self._check_whether_to_go_on()
        spec = self._spec(kind, regime)
        self.regime = spec.regime
        call = self._make(spec, kind, verify=verify, around=around or nullcontext(), recordings=recordings)
        if found := self._against(call):
            raise Ended(found)
        # Stale outputs are compared with the latest ones, and the first.
        self._earlier = [*self._earlier[:1], *self._earlier[1:][-_REMEMBERED:], spec]
        return self._at_size.records[-1]

    def difference(self, clock: ReferenceClock) -> str:
        """How one usual call differs from the reference by the published rule; "" where it does not.

        Raises:
            WorkerGroupFailure: the ranks did not all answer.
            Ended: something other than the shim wrote an output.
        """
        self._check_whether_to_go_on()
        spec = self._spec(CallKind.PLAIN, None)
        with clock.outputs_of(spec) as references:
            call = self._make(spec, CallKind.PLAIN, verify=False, around=nullcontext(), references=references)
        self._at_size.checked_calls += 1
        return call.differs

    def loop(self, times: int, groups: int = 1) -> int:
        """Nanoseconds of `times` calls back to back on `groups` of the last inputs; raises WorkerGroupFailure."""
        self._check_whether_to_go_on()
        self.regime = None
        seconds = self._limit_s * max(1, min(times, 100) // 10)
        return self._ranks.loop(next(self._run.numbers), times=times, groups=groups, seconds=seconds)

    def _check_whether_to_go_on(self) -> None:
        job = self.job
        job.deadlines.refuse_cancelled()
        if time.monotonic() > job.deadlines.evaluation:
            message = f"the evaluation took longer than {job.settings.evaluation_s:g} s"
            raise Ended([self._finding(Verdict.TIMEOUT, message)])

    def _spec(self, kind: CallKind, regime: Regime | None) -> InputSpec:
        if regime is not None:  # one that the author asked for may have ranges
            regime = regime.drawn(secrets.SystemRandom())
        if not self.job.does(Check.FRESH_INPUTS):
            return InputSpec(index=0, regime=regime)
        index = next(self._run.draws)
        if kind is CallKind.NEAR:
            usual = [earlier for earlier in self._earlier if earlier.near is None and earlier.regime is None]
            if usual:
                return InputSpec(index=index, near=usual[-1].index)
        return InputSpec(index=index, regime=regime)

    # ---- one call, from its inputs to its comparison ----------------------------------------------------------

    def _make(
        self,
        spec: InputSpec,
        kind: CallKind,
        *,
        verify: bool,
        around: AbstractContextManager[None],
        recordings: Sequence[int] = (),
        references: Outputs | None = None,
    ) -> Call:
        """Make one call and check it; with the `references` of the same inputs by the published rule."""
        call = Call(
            number=next(self._run.numbers),
            spec=spec,
            kind=kind,
            key=secrets.token_bytes(_KEY_BYTES),
            poison=outputs.new_poison() if self.job.does(Check.POISON) else b"",
            # Sometimes at the address of the call before, sometimes at a new one; the submission cannot know which.
            is_reused=self._at_size.calls > 0 and (kind is CallKind.NEAR or secrets.randbelow(2) == 1),
            delays_us=self._delays_us(kind),
        )
        call.inputs = self._oracle.prepare(
            spec,
            groups=self._opened.groups,
            key=call.key,
            reuse=call.is_reused,
            poison=call.poison_number,
            reader=Reader.SANDBOX,
            mapped=self._mapped,
        )
        self.input_bytes = max(item.size for item in call.inputs)
        with ExitStack() as held:
            held.callback(outputs.close_all, [one for item in call.inputs for one in item.descriptors])
            targets = self._new_files(call, call.poison)
            held.callback(outputs.close_all, targets)
            self._at_size.note_payload(call.inputs)
            self._exchange(call, targets, around=around, recordings=recordings)
            self._at_size.calls += 1
            # With device memory the file holds only the description; the oracle copies the elements.
            leading = OUTPUT_HEADER_BYTES if self._is_on_device else None
            files = [outputs.take(target, leading=leading) for target in targets]
            held.callback(outputs.close_all, files)
            self._check(call, files, verify=verify)
            if references is not None:
                headers = [self._header(rank, file) for rank, file in enumerate(files)]
                call.differs = self._oracle.difference((headers, files), references)
        self._at_size.records.append(call.record())
        return call

    def _exchange(
        self, call: Call, targets: list[int], *, around: AbstractContextManager[None], recordings: Sequence[int]
    ) -> None:
        """Send a call's inputs, open the gates, and await the answers; raises WorkerGroupFailure.

        Raises Ended where a rank answered, but its device has not posted the end of the call.
        """
        job, inputs = self.job, call.inputs
        limit_s = self.limit_s
        files = [
            (item.file, target, *item.areas) if self._is_on_device else (target,)
            for item, target in zip(inputs, targets, strict=True)
        ]
        self._ranks.load(call.number, files, seconds=limit_s)
        self._mapped = [item.areas_number for item in inputs]
        if recordings:
            self._ranks.record(call.number, recordings, seconds=limit_s)
        goes_on = call.kind is CallKind.SKEWED and self.input_bytes <= _MOST_COPIED
        is_early = self._layouts.is_new(tuple(item.layout for item in inputs))
        # At the smallest size late ranks are slow at every step of Python, at others their devices begin late.
        is_early |= goes_on and self._at_size.size == job.sizes[0]
        opening = Opening(
            key=call.key,
            head_s=0.0 if is_early else self._launch_ahead.seconds,
            waits_for_queue=self._launch_ahead.waits_for_queue and not is_early,
            delays_us=call.delays_us,
            is_early=is_early,
        )
        try:
            watching = self._oracle.watching(limit_s=job.deadlines.step(limit_s))
            with watching if self._is_on_device else nullcontext(), around:
                call.reports, call.time = self._ranks.go(
                    call.number,
                    opening=opening,
                    inputs=() if self._is_on_device else [item.file for item in inputs],
                    reuse=call.is_reused,
                    count=call.kind is not CallKind.PLAIN and job.counts_collectives,
                    goes_on=goes_on,
                    seconds=limit_s,
                )
        except UnseenEnd as unseen:
            rank = unseen.ranks[0]
            message = f"rank {rank} answered call {call.number}, but its device never posted the end of the call"
            raise Ended([self._finding(Verdict.TAMPERED, message, rank=rank)]) from unseen
        # Of the calls before which nothing could be queued only the first counts: libraries are loaded then.
        if not (is_early and self._at_size.calls):
            self._launch_ahead.note(call.time)

    def _check(self, call: Call, files: list[int], *, verify: bool) -> None:
        """Check what the ranks say and what is in the outputs taken, and compare these where `verify` says so."""
        size = self._at_size.size
        call.findings += checks.claimed(self.job, call, self._at_size)
        headers = [self._header(rank, file) for rank, file in enumerate(files)]
        if verify:
            call.compared = self._compare(call.spec, headers, files, key=call.key, poison=call.poison_number)
            call.findings += checks.changed(self.job, call.compared.changed, size)
            traces = call.compared.traces
        else:
            traces = self._oracle.take_marks(headers, files, key=call.key)
        if self.job.does(Check.FINGERPRINT):
            call.findings += checks.altered(call, traces, size)

    def _delays_us(self, kind: CallKind) -> tuple[int, ...]:
        """In a skewed call a secret delay for some ranks, in the next one for the others; else none."""
        world_size = self._opened.ranks
        if kind is not CallKind.SKEWED:
            return (0,) * world_size
        least, most = self.job.profile.timing_policy.skew_us
        some = secrets.SystemRandom().sample(range(world_size), 1 + secrets.randbelow(max(1, world_size - 1)))
        late = self._punctual or set(some)
        self._punctual = set() if self._punctual else set(range(world_size)) - late
        return tuple(least + secrets.randbelow(most - least) if rank in late else 0 for rank in range(world_size))

    def _new_files(self, call: Call, poison: bytes) -> list[int]:
        """An output file per rank. With device memory the oracle poisons it, and the file holds only descriptions."""
        return outputs.create_all(call.inputs, poison=b"" if self._is_on_device else poison)

    def _header(self, rank: int, file: int) -> list[dict[str, object]]:
        try:
            return outputs.read_header(file)
        except outputs.HeaderError as error:
            message = f"rank {rank}: something other than the judge's shim wrote the output file ({error})"
            raise Ended([self._finding(Verdict.TAMPERED, message, rank=rank)]) from error

    def _compare(
        self,
        spec: InputSpec,
        headers: Sequence[list[dict[str, object]]],
        files: list[int],
        *,
        key: bytes,
        poison: int | None,
    ) -> Comparison:
        """The outputs against the expected ones of `spec`; checks that are switched off are left out."""
        start = time.monotonic()
        compared = self._oracle.compare(spec, headers, files, key=key, earlier=self._earlier, poison=poison)
        self._comparisons_s.append(time.monotonic() - start)
        counted = [item for item in compared.checks if self._counts(item)]
        self._at_size.add(counted)
        return replace(compared, checks=counted)

    def _counts(self, item: CheckedOutput) -> bool:
        is_value = item.verdict in checks.VALUE_VERDICTS
        return (not is_value or self.job.does(Check.VALUES)) and (item.rank == 0 or self.job.does(Check.EVERY_RANK))

    # ---- why values are wrong: written too late, never written, or correct by chance ---------------------------

    def _against(self, call: Call) -> list[Finding]:
        """What speaks against a call, with the reasons."""
        found = list(call.findings)
        if not call.is_correct:
            found += [*checks.wrong_values(call, self._at_size.size, self.job), *self._explained(call)]
        elif any(finding.verdict is Verdict.INCOMPLETE_OUTPUT for finding in found):
            # Storing again exposes a forged record: the rank's own answer comes too late.
            self._is_correct_by_now(call)
        return found

    def _explained(self, call: Call) -> list[Finding]:
        """The reasons that can be shown; none where the values are just wrong."""
        wrong = [item for item in call.checks if item.verdict in checks.VALUE_VERDICTS and item.stale is None]
        if not wrong:
            return []
        unwritten = [
            self._finding(
                Verdict.INCOMPLETE_OUTPUT,
                f"rank {item.rank}: {item.unwritten:.1%} of output {item.output!r} was never written",
                rank=item.rank,
                output=item.output,
            )
            for item in wrong
            if item.unwritten
        ]
        first = wrong[0]
        if self._is_correct_by_now(call):
            message = (
                f"rank {first.rank}, call {call.number}: output {first.output!r} was wrong when the call "
                "ended and correct a little later, so something was still writing to it"
            )
            late = self._finding(Verdict.INCOMPLETE_OUTPUT, message, rank=first.rank, output=first.output)
            return [*unwritten, late]
        return unwritten or self._replayed(call, first)

    def _is_correct_by_now(self, call: Call) -> bool:
        """Whether the returned outputs are correct when the ranks store them once more; raises WorkerGroupFailure."""
        time.sleep(_LATE_S)
        targets = self._new_files(call, b"")
        try:
            self._ranks.store(call.number, targets, seconds=self._limit_s)
            headers = [outputs.read_header(target) for target in targets]
            compared = self._compare(call.spec, headers, targets, key=bytes(_KEY_BYTES), poison=None)
        except outputs.HeaderError:
            return False
        finally:
            outputs.close_all(targets)
        return all(item.verdict is None for item in compared.checks)

    def _replayed(self, call: Call, first: CheckedOutput) -> list[Finding]:
        """Call again on inputs with a wrong output: a correct one now means that chance decides."""
        again = [self._make(call.spec, CallKind.REPEATED, verify=True, around=nullcontext()) for _ in range(_REPLAYS)]
        right = sum(each.is_correct for each in again)
        if not right:
            return []
        message = (
            f"rank {first.rank}, call {call.number}{checks.special(call)}: output {first.output!r} was "
            f"wrong at first, and correct in {right} of {_REPLAYS} repetitions on the same inputs"
        )
        return [self._finding(Verdict.NONDETERMINISTIC, message, rank=first.rank, output=first.output)]

    def _finding(
        self, verdict: Verdict, message: str, *, rank: int | None = None, output: str | None = None
    ) -> Finding:
        return Finding(verdict=verdict, message=message, rank=rank, size=self._at_size.size, output=output)
