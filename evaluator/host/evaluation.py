"""One evaluation from request to report."""

import contextlib
import functools
import hashlib
import itertools
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evaluator.contract import (
    Audit,
    Backend,
    CallKind,
    CallRecord,
    Canary,
    DriverFault,
    EvaluationReport,
    EvaluationRequest,
    Finding,
    Mode,
    Record,
    SandboxLevel,
    Sighting,
    SizeRecord,
    SlotKind,
    Stage,
    Timing,
    Verdict,
    Wire,
)
from evaluator.errors import EvaluatorError, SubmissionFault
from evaluator.host.building.builder import Builder, Built, is_needed
from evaluator.host.hangs.diagnosis import findings_of, rank_states
from evaluator.host.hangs.incidents import GroupTrouble, IncidentKind
from evaluator.host.machine import backends, facts, nvlink, nvml
from evaluator.host.measure import profiled_call
from evaluator.host.measure.calls import Caller, Conduct
from evaluator.host.measure.evidence import Ended, Evidence
from evaluator.host.measure.references import Opening, ReferenceClock
from evaluator.host.measure.schedule import burst_calls, check_kinds, leg_calls, special_plan
from evaluator.host.measure.series import Series, element_bytes, floor_us, joined, run_block, secret_subset
from evaluator.host.ranks.oracle_group import OpenedSize, OracleGroup
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.sandbox import cpu_sets
from evaluator.judging import collectives, primitives, profiled_work, source_rules, timing, verdicts
from evaluator.judging.checks import Check
from problems import registry

DEFAULT_DTYPE = "bfloat16"
"""What a card means by `input`."""

_OPENING_CALLS = 3
"""Calls before the first leg, on both sides: first-call work and warm caches."""

_OPENING_PAIRS, _OPENING_S = 15, 0.3
"""Pairs of calls for the reference where speed is ranked; after fewer the library is still slower than it will be.
Where calls are long, no further pair is begun after so many seconds."""


_CHEAP_BYTES = 128 * 1024**2
"""So much at most is stored and compared in every call of the reference: a pass over it takes 0.03 ms at the 4.8 TB/s
of an H200's datasheet."""

_BAD_ENDS = frozenset(
    {Verdict.CRASHED, Verdict.DEADLOCK, Verdict.JUDGE_FAILURE, Verdict.OUT_OF_MEMORY, Verdict.TAMPERED, Verdict.TIMEOUT}
)


class Evaluation:
    """The state of one evaluation: what it was asked, and what has been shown so far."""

    def __init__(
        self,
        request: EvaluationRequest,
        *,
        plan: SlotPlan,
        builder: Builder,
        work_dir: Path,
        progress: Callable[[Stage, str, float | None], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._request = request
        self._plan = plan
        self._builder = builder
        self._work_dir = work_dir
        self._built: Built | None = None
        self._settings = plan.settings
        self._progress = progress
        self._cancelled = cancelled
        self._evidence = Evidence()
        self._deadline = time.monotonic() + plan.settings.evaluation_s
        self._key = secrets.token_bytes(32)
        self._contents = itertools.count()
        self._numbers = itertools.count(1)
        self._gang: WorkerGroup | None = None
        self._second: WorkerGroup | None = None
        self._has_held_ranks = False
        self._oracle: OracleGroup | None = None
        self._timing: Timing | None = None
        self._slots = SlotKind.HOST_MEMORY
        self._primitives: tuple[Sighting, ...] = ()
        self._audit: Audit | None = None
        self._dtype = request.dtype or DEFAULT_DTYPE
        self._commitment = hashlib.sha256(self._key).hexdigest()
        self._records: list[SizeRecord] = []
        self._rules = plan.profile.timing_rules(self._slots)
        self._openings: dict[str, Opening] = {}
        self._conduct = Conduct(
            vigilance=plan.profile.vigilance,
            settings=plan.settings,
            backend=request.backend,
            mode=request.mode,
            deadline=self._deadline,
            cancelled=cancelled,
        )
        self._sizes = request.sizes or plan.profile.sizes[request.mode]

    def run(
        self,
        *,
        take_oracle: Callable[[], OracleGroup],
        take_gang: Callable[[], WorkerGroup],
        settle: Callable[[], None],
    ) -> None:
        """Judge, stage by stage; `settle` returns once nothing is starting beside the gangs that were taken.

        Raises:
            EvaluationCancelled: `cancelled()` became true.
            EvaluatorError: a failure of ours.
        """
        try:
            self._check_source()
            self._build()
            self._start(take_oracle, take_gang, settle)
            self._import()
            self._run_sizes()
            self._run_second_gang()
            self._conclude()
        except Ended:
            pass
        except SubmissionFault as fault:
            self._evidence.findings.append(Finding(verdict=fault.verdict, message=fault.message))

    @property
    def evaluation_id(self) -> str:
        """Whose evaluation this is."""
        return self._request.evaluation_id

    @property
    def has_held_ranks(self) -> bool:
        """Whether a gang was taken for this evaluation."""
        return self._has_held_ranks

    @property
    def ended_badly(self) -> bool:
        """Whether a rank crashed or hung, or the judge failed: what it used is then looked at more closely."""
        return any(finding.verdict in _BAD_ENDS for finding in self._evidence.findings)

    def fail(self, error: EvaluatorError) -> None:
        """Note a failure of ours."""
        self._evidence.findings.append(Finding(verdict=Verdict.JUDGE_FAILURE, message=str(error)))

    def close(self) -> None:
        """End the gang; raises EvaluatorError where something of it stays."""
        held, self._gang, self._second = (self._gang, self._second), None, None
        with contextlib.ExitStack() as stack:
            for gang in held:
                if gang is not None:
                    stack.callback(gang.close)

    # ---- stages -----------------------------------------------------------------------------------------------

    @contextmanager
    def _stage(self, stage: Stage, detail: str, fraction: float | None = None) -> Iterator[None]:
        self._progress(stage, detail, fraction)
        with self._evidence.stage(stage):
            yield

    def _check_source(self) -> None:
        """What can be said without running anything."""
        request = self._request
        with self._stage(Stage.PREPARING, "reading the source"):
            if request.profile != self._plan.profile.name:
                raise EvaluatorError(f"this slot judges for {self._plan.profile.name}, not for {request.profile}")
            try:
                problem = registry.get(request.problem)
            except registry.UnknownProblem as error:
                raise EvaluatorError(str(error)) from error
            self._problem = problem
            found = source_rules.check_source(
                problem, request.source, backend=request.backend, profile=self._plan.profile, mode=request.mode
            )
            if self._plan.profile.gpu is not None:
                found += backends.missing(request.source, backend=request.backend, node=backends.Node.this())
        self._evidence.findings += found
        self._evidence.warnings += source_rules.warnings(request.source, backend=request.backend, mode=request.mode)
        if self._plan.profile.gpu is not None:
            self._primitives = primitives.in_source(request.source, collectives=collectives.COLLECTIVES)
        if verdicts.decide_before_ranks(found) is not None:
            raise Ended

    def _build(self) -> None:
        """Compile what the submission will ask for, before any rank is held."""
        if not is_needed(self._request):
            return
        with self._stage(Stage.BUILDING, "compiling"):
            self._built = self._builder.build(self._request, workdir=self._work_dir, sandbox=self._plan.confinement)
        self._evidence.findings += self._built.findings
        self._primitives += self._built.primitives
        self._evidence.findings += source_rules.check_machine_code(self._built.primitives, profile=self._plan.profile)
        if verdicts.decide_before_ranks(self._evidence.findings) is not None:
            raise Ended

    def _start(
        self, take_oracle: Callable[[], OracleGroup], take_gang: Callable[[], WorkerGroup], settle: Callable[[], None]
    ) -> None:
        with self._stage(Stage.STARTING, "waiting for the ranks"):
            self._oracle = take_oracle()
            self._has_held_ranks = True
            self._gang = take_gang()
            if self._second_share:
                # Where none was waiting, it starts while the first gang imports and is verified.
                self._second = take_gang()
            self._gang.wait_until_ready(cancelled=self._cancelled)
            if self._request.mode.is_timed:
                settle()

    def _import(self) -> None:
        with self._stage(Stage.STARTING, "importing solution.py"), self._troubles(size=None):
            gang = self._ready_gang()
            gang.reveal(self._request.source, built=self._built)
            gang.import_submission(seconds=self._settings.import_s, cancelled=self._cancelled)

    def _run_sizes(self, *, gang: int = 1, blocks: int | None = None) -> list[SizeRecord]:
        """All calls at all sizes in the present gang."""
        return [self._run_size(size, gang=gang, blocks=blocks) for size in self._sizes]

    def _run_size(self, size: str, *, gang: int, blocks: int | None) -> SizeRecord:
        """All calls at one size; `blocks` of them where the mode is timed, None for as many as the profile has."""
        with self._stage(Stage.PREPARING, f"{size}: reference and first contents"):
            opened = self._ready_oracle().open_size(
                problem=self._problem.slug, size=size, dtype=self._dtype, key=self._key
            )
            self._slots = opened.slots
            self._rules = self._plan.profile.timing_rules(opened.slots)
            clock = ReferenceClock(self._ready_oracle(), opened, self._contents)
            opening = self._open_reference(clock, size)
        at_size = self._evidence.open_size(size, opened.dims)
        caller = Caller(
            self._ready_gang(),
            self._ready_oracle(),
            opened=opened,
            evidence=self._evidence,
            at_size=at_size,
            contents=self._contents,
            numbers=self._numbers,
            reference_s=opening.call_s,
            first_call_s=self._first_call_s(),
            conduct=self._conduct,
        )
        series = Series(is_primed=opening.is_primed)
        floor = floor_us(self._problem, opened.dims, self._plan.profile, self._dtype)
        wire = None
        try:
            with self._troubles(size=size):
                self._verify(size, caller, calls=self._opening_calls(gang))
                if self._request.mode.is_timed:
                    blocks = blocks or self._blocks
                    calls = leg_calls(
                        opening.call_s,
                        opening.turn_s,
                        self._settings,
                        blocks=self._blocks,
                        is_practice=not self._plan.profile.is_ranked_by_speed,
                    )
                    with cpu_sets.host_on(self._plan.shares):
                        self._time(caller, clock, series, size=size, calls=calls, blocks=blocks)
                if gang == 1 and self._settings.audit:
                    wire = self._count_links(size, opened, caller)
                    if size == self._sizes[-1]:
                        # Last of all: a recorder that once ran may slow what comes after.
                        self._record_work(size, caller)
        finally:
            # What ended early is evidence too.
            self._records.append(series.record(at_size, floor_us=floor, gang=gang, wire=wire))
        return self._records[-1]

    def _first_call_s(self) -> float:
        is_built = self._built is not None and bool(self._built.result.artefacts)
        # Of Triton's kernels some may depend on contents, and those are compiled in the first call after all.
        is_complete = is_built and self._request.backend is not Backend.TRITON
        may_build = self._request.backend is not Backend.PYTORCH and not is_complete
        return self._settings.lazy_build_s if may_build else self._settings.first_call_s

    def _open_reference(self, clock: ReferenceClock, size: str) -> Opening:
        """The reference's calls before anything is timed: many in the first gang, a few where it ran a moment ago."""
        if size in self._openings:
            clock.reopen(self._openings[size], calls=_OPENING_CALLS)
        elif self._plan.profile.is_ranked_by_speed:
            self._openings[size] = clock.open(pairs=_OPENING_PAIRS, seconds=_OPENING_S)
        else:
            self._openings[size] = clock.open(pairs=1, seconds=0.0)
        return self._openings[size]

    def _opening_calls(self, gang: int) -> int:
        """Calls before any leg: all there are in check mode, and one where the first gang showed the rest."""
        if not self._request.mode.is_timed:
            return self._settings.check_calls
        return _OPENING_CALLS if gang == 1 else 1

    def _verify(self, size: str, caller: Caller, *, calls: int) -> None:
        """The calls before any leg, every one compared."""
        for number, kind in enumerate(check_kinds(calls, conduct=self._conduct)):
            with self._stage(Stage.VERIFYING, f"{size}: call {number + 1} of {calls}", number / calls):
                caller.call(verify=True, kind=kind)

    def _time(
        self,
        caller: Caller,
        clock: ReferenceClock,
        series: Series,
        *,
        size: str,
        calls: int,
        blocks: int,
    ) -> None:
        """Every block at one size, `calls` calls a leg; special calls lie between the timed ones and look the same."""
        profile = self._plan.profile
        if self._second is not None:
            self._second.wait_until_ready(cancelled=self._cancelled)
        total = 2 * calls * blocks
        # On a practice board correctness decides the order, and comparing is cheap: there every call is checked.
        checks = self._full_checks(total, caller, blocks=blocks) if profile.is_ranked_by_speed else total
        is_checked = self._conduct.does(Check.TIMED_CALLS)
        checked = secret_subset(total, checks) if is_checked else frozenset()
        special: dict[int, CallKind] = {}
        if is_checked:
            special = special_plan(blocks=blocks, of_blocks=self._blocks, block_calls=2 * calls, conduct=self._conduct)
        counter = itertools.count()

        def time_candidate() -> CallRecord:
            place = next(counter)
            if place in special:
                caller.call(verify=True, kind=special[place])
            return caller.call(verify=place in checked)

        # Looking at every process takes milliseconds, so it is done around a secret half of the blocks.
        is_watched = self._rules.busy_cores is not None and self._conduct.does(Check.IDLE)
        watched = secret_subset(blocks, max(2, -(-blocks // 2))) if is_watched else frozenset()
        # What ranks do around a call is part of what a claimed time leaves on the host's clock: where it costs
        # little, the reference's ranks do it in every call, else in one per block.
        time_as_rank = functools.partial(clock.time, as_rank=True)
        is_cheap = profile.is_ranked_by_speed and caller.payload_bytes <= _CHEAP_BYTES
        gpus = self._plan.gpus
        series.gpus = nvml.readings(gpus, moment="before")
        reference_s = self._openings[size].call_s
        together = burst_calls(caller.payload_bytes, reference_s, most=profile.vigilance.burst_calls)
        # A quarter of a series is too short to tell anything by bursts.
        is_long = 2 * blocks >= self._blocks and together > 0
        is_judged = self._rules.burst_us is not None and self._conduct.does(Check.BURST)
        wanted = profile.vigilance.bursts if is_long and is_judged else 0
        bursts_after = secret_subset(blocks, wanted)
        for block in range(blocks):
            with self._stage(Stage.TIMING, f"{size}: block {block + 1} of {blocks}", block / blocks):
                run_block(
                    series,
                    calls=calls,
                    time_candidate=time_candidate,
                    time_reference=time_as_rank if is_cheap else clock.time,
                    time_as_rank=None if is_cheap or not profile.is_ranked_by_speed else time_as_rank,
                    busy_ns=self._ready_gang().busy_ns if block in watched else None,
                )
                if block in bursts_after:
                    series.bursts += filter(None, [caller.burst(calls) for calls in (together, 1)])
        series.gpus += nvml.readings(gpus, moment="after")
        series.processes = self._ready_gang().count_processes()

    def _full_checks(self, total: int, caller: Caller, *, blocks: int) -> int:
        """How many of a series' timed calls are compared in full; a part of a series has its part of them."""
        settings = self._settings
        part = blocks / self._blocks
        wanted = max(round(settings.full_checks * part), -(-total // 10))
        affordable = int(settings.checks_s * part / max(caller.comparing_s, 1e-9))
        least = max(1, round(settings.least_checks * part))
        return min(total, max(least, min(wanted, affordable)))

    def _count_links(self, size: str, opened: OpenedSize, caller: Caller) -> Wire:
        """A few calls like any other, around which the host reads the counters of the links."""
        with self._stage(Stage.VERIFYING, f"{size}: bytes on the links"):
            cost = self._problem.cost(opened.dims, self._plan.profile.world_size, element_bytes(self._dtype))
            return nvlink.count(
                self._plan.gpus,
                least_bytes=cost.wire_bytes,
                call=lambda around: caller.call(verify=False, around=around),
            )

    def _record_work(self, size: str, caller: Caller) -> None:
        """One more call, in which the ranks record what runs: primitives, and library collectives past torch's."""
        files = [profiled_call.create() for _ in range(self._plan.profile.world_size)]
        try:
            with self._stage(Stage.VERIFYING, f"{size}: recording kernels and copies"):
                caller.call(verify=True, kind=CallKind.AUDITED, audits=files)
            self._audit = profiled_call.read(files, size=size)
        except GroupTrouble as trouble:
            if any(incident.kind is IncidentKind.VIOLATION for incident in trouble.incidents):
                raise
            # The recorder may be to blame, so nobody is: the report says that there are no records, and why.
            self._audit = Audit(size=size, note=f"the ranks did not come through the recorded call: {trouble}")
        finally:
            for descriptor in files:
                os.close(descriptor)
        if self._plan.profile.gpu is not None:
            self._primitives += profiled_work.sightings(self._audit.works)
        hidden = profiled_work.hidden_collectives(self._audit.works, backend=self._request.backend)
        if hidden is not None and self._conduct.counts_collectives:
            if self._request.mode is Mode.RANKED:
                self._evidence.findings.append(hidden)
                raise Ended
            self._evidence.warn(hidden)

    @property
    def _blocks(self) -> int:
        return self._settings.blocks or self._plan.profile.blocks

    @property
    def _second_share(self) -> float:
        """The share of the series that a second gang runs; 0 where there is none."""
        if self._request.mode is not Mode.RANKED or not self._conduct.does(Check.SECOND_GANG):
            return 0.0
        share = self._settings.second_gang_share
        return self._plan.profile.vigilance.second_gang_share if share is None else share

    def _run_second_gang(self) -> None:
        """Run part of a ranked series again in a fresh gang with other secrets.

        All of it where ratios differ, or the first gang left its claims in doubt.
        """
        second, self._second = self._second, None
        if second is None:
            return
        first, against = timing.conclude(self._records, self._rules, without=self._settings.without)
        is_doubted = timing.has_doubts(against)
        self._evidence.ranks = rank_states(self._ready_gang().observe_finished())
        self.close()
        self._gang = second
        self._key = hashlib.sha256(self._key + b"second gang").digest()
        # Since it was ready it has waited for as long as the first was timed.
        second.wait_until_ready(cancelled=self._cancelled)
        try:
            self._import()
            if is_doubted:
                self._run_sizes(gang=2)
                return
            part = max(1, round(self._second_share * self._blocks))
            again = self._run_sizes(gang=2, blocks=part)
            if part < self._blocks and not timing.agrees(again, first, self._rules):
                rest = self._run_sizes(gang=2, blocks=self._blocks - part)
                whole = [joined(*both) for both in zip(again, rest, strict=True)]
                self._records[-2 * len(whole) :] = whole
        except Ended:
            self._evidence.note_disagreement()
            raise

    def _conclude(self) -> None:
        """Every piece of evidence is there; say so."""
        if self._request.mode.is_timed:
            with self._stage(Stage.COMPARING, "comparing with the reference"):
                self._timing, against = timing.settle(self._records, self._rules, without=self._settings.without)
            self._evidence.findings += against
        self._evidence.ranks = rank_states(self._ready_gang().observe_finished())
        checked = sum(at_size.checked_calls for at_size in self._evidence.sizes)
        message = f"right on {self._plan.profile.world_size} ranks in all {checked} checked calls"
        if self._timing is not None:
            message += f"; {self._timing.score:.2f} times as fast as the reference"
        self._evidence.findings.append(Finding(verdict=Verdict.PASSED, message=message))

    @contextmanager
    def _troubles(self, *, size: str | None) -> Iterator[None]:
        """Turn the end of a gang into findings; note the ranks' states whenever an evaluation ends here."""
        try:
            yield
        except GroupTrouble as trouble:
            self._evidence.findings += self._blamed(findings_of(trouble, size=size), trouble)
            self._evidence.ranks = rank_states(trouble.observations)
            raise Ended from trouble
        except Ended:
            self._evidence.ranks = rank_states(self._ready_gang().observe_finished())
            raise

    def _blamed(self, findings: tuple[Finding, ...], trouble: GroupTrouble) -> tuple[Finding, ...]:
        """Without a sandbox a submission can kill what started its ranks: that is no failure of ours to be retried."""
        has_ended = any(incident.kind is IncidentKind.SANDBOX_ENDED for incident in trouble.incidents)
        if self._plan.confinement.level is not SandboxLevel.NONE or not has_ended:
            return findings
        message = "the process that started the ranks ended; without a sandbox the submission can bring that about"
        return tuple(
            Finding(verdict=Verdict.CRASHED, message=message, size=finding.size)
            if finding.verdict is Verdict.JUDGE_FAILURE
            else finding
            for finding in findings
        )

    def _ready_gang(self) -> WorkerGroup:
        if self._gang is None:
            raise EvaluatorError("there is no gang")
        return self._gang

    def _ready_oracle(self) -> OracleGroup:
        if self._oracle is None:
            raise EvaluatorError("there are no oracle ranks")
        return self._oracle

    # ---- the report -------------------------------------------------------------------------------------------

    def report(
        self,
        *,
        started_at: str,
        finished_at: str,
        canaries: tuple[Canary, ...],
        driver_faults: tuple[DriverFault, ...] | None,
    ) -> EvaluationReport:
        """What this evaluation has shown. A pass needs its finding; without any, the fault is ours."""
        evidence, request = self._evidence, self._request
        self._progress(Stage.REPORTING, "writing the report", None)
        decided = verdicts.decide(
            evidence.findings
            or [Finding(verdict=Verdict.JUDGE_FAILURE, message="the evaluation ended without a result")]
        )
        return EvaluationReport(
            evaluation_id=request.evaluation_id,
            problem=request.problem,
            revision=request.revision,
            source_digest=request.source.digest,
            backend=request.backend,
            profile=request.profile,
            world_size=self._plan.profile.world_size,
            mode=request.mode,
            dtype=self._dtype,
            verdict=decided.verdict,
            message=decided.message,
            findings=tuple(evidence.findings),
            stages=evidence.stage_times(),
            sizes=tuple(at_size.result() for at_size in evidence.sizes),
            timing=self._timing if decided.verdict is Verdict.PASSED else None,
            record=Record(rules=self._rules, sizes=tuple(self._records)) if self._records else None,
            warnings=tuple(evidence.warnings),
            ranks=evidence.ranks,
            build=self._built.result if self._built is not None else None,
            primitives=self._primitives,
            audit=self._audit,
            canaries=canaries,
            driver_faults=driver_faults,
            sandbox=self._plan.confinement.level,
            slots=self._slots,
            commitment=self._commitment,
            environment=self._environment(),
            started_at=started_at,
            finished_at=finished_at,
        )

    def _environment(self) -> dict[str, str]:
        missing = "; ".join(item.name for item in self._plan.confinement.missing)
        return {
            **facts.environment(),
            "judge": facts.judge_digest(),
            "sandbox.missing": missing,
            "attempt": str(self._request.attempt),
            **self._settings.as_record(),
        }
