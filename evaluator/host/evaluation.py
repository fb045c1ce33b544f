"""One evaluation from request to report."""

import contextlib
import hashlib
import itertools
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from evaluator.contract import (
    MOMENT_ALONE,
    MOMENT_REVEALING,
    Backend,
    BufferKind,
    Canary,
    Detection,
    DriverFault,
    EvaluationReport,
    EvaluationRequest,
    Finding,
    GpuReading,
    MachineCode,
    Mode,
    Record,
    RecordedWork,
    SandboxLevel,
    SizeMemory,
    SizeRecord,
    Stage,
    Timeline,
    Timing,
    Verdict,
    tells,
)
from evaluator.errors import EvaluatorError, NodeTrouble, SubmissionFault
from evaluator.host.building.builder import Builder, Built, is_needed
from evaluator.host.hangs.diagnosis import findings_of, rank_states
from evaluator.host.hangs.incidents import EvaluationCancelled, GroupTrouble, IncidentKind
from evaluator.host.machine import backends, facts
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure import gpu_memory
from evaluator.host.measure.call_checks import CallPolicy
from evaluator.host.measure.evidence import Ended, Evidence, in_words
from evaluator.host.measure.gpu_memory import GpuMemory
from evaluator.host.measure.head_start import HeadStart
from evaluator.host.measure.references import RecordedReferences, ReferenceClock, new_opening
from evaluator.host.measure.size_run import Bare, Known, Rig, SizeRun
from evaluator.host.process.helper_process import HelperLimitExceeded, HelperProcess
from evaluator.host.process.hold import Hold
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.trusted_line import OutOfDeviceMemory
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.waiting_groups import WaitingGroups
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.judging import (
    kernel_code,
    recorded_work,
    reference_drift,
    source_rules,
    throttling,
    timing,
    verdicts,
)
from evaluator.judging.checks import Check
from evaluator.judging.reading import READ_SOURCE, SourceReading
from problems import registry
from problems.schema import Regime, SizeName

DEFAULT_DTYPE = "bfloat16"
"""The dtype that a problem card calls `input`."""

_BARE_CALLS, _BARE_NUMBERS = 15, 2**31
"""Bare calls per worker group before its submission is revealed, and the first of their numbers."""

_BAD_ENDS = frozenset(
    {
        Verdict.CRASHED,
        Verdict.DEADLOCK,
        Verdict.JUDGE_ERROR,
        Verdict.JUDGE_FAILURE,
        Verdict.OUT_OF_MEMORY,
        Verdict.TAMPERED,
        Verdict.TIMEOUT,
    }
)


_ALONE_FIRST, _ALONE_S, _ALONE_SETTLING, _ALONE_CALLS = 8, 0.2, 3, 8
"""How often the reference is called at a size before the submission is revealed. There are at most so many first calls,
and no new one after so many seconds. A few follow after a pause in which ranks may have started. Then come those whose
times are kept."""

logger = logging.getLogger(__name__)

_FOR_THE_AUTHOR = (
    "the judge had an internal error while it handled this submission; its node works, and the operator has the log"
)
_MESSAGE_CHARACTERS = 300


def _speed(timing: Timing) -> str:
    """The end of the message of a pass."""
    if not tells(timing.low, timing.high):
        return "; its times were too noisy to tell how fast it is"
    return f"; {timing.score:.2f} times as fast as the reference"


def _first_line(error: Exception) -> str:
    """The first line of an error. Tracebacks of trusted processes go only to the operator's log."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_MESSAGE_CHARACTERS]


@contextmanager
def _without_the_submission() -> Iterator[None]:
    """Errors inside are the node's: no process involved holds anything of the submission."""
    try:
        yield
    except (EvaluationCancelled, NodeTrouble):
        raise
    except EvaluatorError as error:
        raise NodeTrouble(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class Alone:
    """The reference at a size before any rank could read the submission: times of calls in ns, and the GPUs then."""

    times_ns: tuple[int, ...] = ()
    gpus: tuple[GpuReading, ...] = ()


class Evaluation:
    """The state of one evaluation: its request, and the evidence so far."""

    def __init__(
        self,
        request: EvaluationRequest,
        *,
        plan: SlotPlan,
        builder: Builder,
        helper: HelperProcess,
        references: RecordedReferences,
        work_dir: Path,
        hold: Hold,
        progress: Callable[[Stage, str, float | None], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._request = request
        self._plan = plan
        self._builder = builder
        self._helper = helper
        self._references = references
        self._work_dir = work_dir
        self._built: Built | None = None
        self._settings = plan.settings
        self._progress = progress
        self._cancelled = cancelled
        self._evidence = Evidence()
        self._afterwards: list[Finding] = []
        self._is_in_play = False
        self._hold = hold
        self._key = secrets.token_bytes(32)
        self._draws = itertools.count()
        self._numbers = itertools.count(1)
        self._group: WorkerGroup | None = None
        self._second: WorkerGroup | None = None
        self._memory: GpuMemory | None = None
        self._held: SizeMemory | None = None
        self._shortage: Finding | None = None
        self._has_held_ranks = False
        self._trusted: TrustedRanks | None = None
        self._timing: Timing | None = None
        self._buffers = BufferKind.HOST_MEMORY
        self._primitives: tuple[Detection, ...] = ()
        self._recorded_work: RecordedWork | None = None
        self._timeline: Timeline | None = None
        self.has_stuck_ranks = False
        self._dtype = request.dtype or DEFAULT_DTYPE
        self._commitment = hashlib.sha256(self._key).hexdigest()
        self._records: list[SizeRecord] = []
        self._known: dict[str, Known] = {}
        self._watch = SlotWatch(plan.gpus)
        self._alone: dict[str, Alone] = {}
        self._opened_alone: dict[str, ReferenceClock] = {}
        self._is_second_waited_for = False
        self._revealing: tuple[GpuReading, ...] = ()
        self._policy = CallPolicy(
            timing_policy=plan.profile.timing_policy,
            settings=plan.settings,
            backend=request.backend,
            mode=request.mode,
            hold=hold,
            cancelled=cancelled,
        )
        self._sizes = request.sizes or plan.profile.sizes[request.mode]

    def run(
        self,
        *,
        take_trusted: Callable[[], TrustedRanks],
        waiting: WaitingGroups,
        prepare_next: Callable[[], None],
    ) -> None:
        """Judge, stage by stage, with worker groups taken from `waiting`.

        `prepare_next` is called once this evaluation has its groups.

        Raises:
            EvaluationCancelled: `cancelled()` became true.
            EvaluatorError: the judge or its node failed.
        """
        try:
            self._check_request()
            self._is_in_play = True
            self._check_source()
            self._build()
            self._take_ranks(take_trusted, waiting)
            self._open_alone()
            self._wait_for_ranks(waiting)
            prepare_next()
            self._time_reference_alone()
            self._run_sizes(self._import(), group_number=1, share=1 - self._second_share)
            self._run_second_group()
            self._record_reference()
            self._conclude()
        except Ended:
            pass
        except SubmissionFault as fault:
            self._evidence.findings.append(Finding(verdict=fault.verdict, message=fault.message))

    @property
    def evaluation_id(self) -> str:
        """The identifier of this evaluation."""
        return self._request.evaluation_id

    @property
    def has_held_ranks(self) -> bool:
        """Whether a worker group was taken for this evaluation."""
        return self._has_held_ranks

    @property
    def ended_badly(self) -> bool:
        """Whether a rank crashed or hung, or the judge failed. Then the judge examines what was used."""
        return any(finding.verdict in _BAD_ENDS for finding in self._evidence.findings)

    @property
    def ended_well(self) -> bool:
        """Whether nothing has to be examined: the next ranks may start while those of this evaluation end."""
        return not self.ended_badly and not self.awaits_proof

    @property
    def is_in_play(self) -> bool:
        """Whether the judge already handles bytes of the submission, so that they may cause an error of the judge."""
        return self._is_in_play

    @property
    def awaits_proof(self) -> bool:
        """Whether an error of the judge decides so far; it becomes JUDGE_FAILURE if the node turns out to be faulty."""
        return self._shortage is not None or self._decided().verdict is Verdict.JUDGE_ERROR

    def fail(self, error: Exception, *, is_nodes: bool) -> None:
        """Note an error of the judge. An earlier verdict stays, with the error beside it.

        Args:
            error: what went wrong.
            is_nodes: whether the node proved to be faulty; otherwise the error is attributed to the submission.
        """
        found = self._ours(error, is_nodes=is_nodes)
        if is_nodes and self._evidence.findings and self.awaits_proof:
            self._evidence.findings, self._shortage = [found], None
        elif self._evidence.findings:
            self._afterwards.append(found)
        else:
            self._evidence.findings.append(found)
            self._shortage = found if found.verdict is Verdict.UNSUPPORTED else None

    def _ours(self, error: Exception, *, is_nodes: bool) -> Finding:
        """The finding for an error of the judge. A lack of memory is never charged; another try would end so too."""
        if is_nodes:
            return Finding(verdict=Verdict.JUDGE_FAILURE, message=_first_line(error))
        if isinstance(error, OutOfDeviceMemory):
            return Finding(verdict=Verdict.UNSUPPORTED, message=self._shortage_in_words())
        return Finding(verdict=Verdict.JUDGE_ERROR, message=_FOR_THE_AUTHOR)

    def _shortage_in_words(self) -> str:
        figures = "" if self._held is None else f"; {gpu_memory.in_words(self._held)}"
        return (
            f"the judge had no memory left for inputs, expected outputs or comparisons of {self._request.problem} "
            f"beside this submission. Without it the judge has enough{figures}"
        )

    def rehearse(self, trusted: TrustedRanks) -> None:
        """A few calls of the reference at every size, without the submission; raises EvaluatorError."""
        for size in self._sizes:
            opened = trusted.open_size(
                problem=self._request.problem, size=size, dtype=self._dtype, key=secrets.token_bytes(32)
            )
            ReferenceClock(trusted, opened, itertools.count()).open(calls=2, seconds=0.0)

    def stop(self) -> None:
        """Let the processes of the worker groups end, without waiting for that."""
        for group in (self._group, self._second):
            if group is not None:
                group.stop()

    def close(self) -> None:
        """End the worker groups, and release what was held; raises EvaluatorError where a part of one is left."""
        self._watch.close()
        self._end_groups()

    def _end_groups(self) -> None:
        held, self._group, self._second = (self._group, self._second), None, None
        with contextlib.ExitStack() as stack:
            for group in held:
                if group is not None:
                    stack.callback(group.close, within=self._hold.killing)

    # ---- stages -----------------------------------------------------------------------------------------------

    @contextmanager
    def _stage(self, stage: Stage, detail: str, fraction: float | None = None) -> Iterator[None]:
        self._progress(stage, detail, fraction)
        begun = time.monotonic()
        with self._evidence.stage(stage):
            yield
        logger.debug("evaluation %s: %s, %s: %.2f s", self.evaluation_id, stage, detail, time.monotonic() - begun)

    def _check_request(self) -> None:
        """Check that this slot can judge the request. Reads nothing of the submission."""
        request = self._request
        if request.profile != self._plan.profile.name:
            raise NodeTrouble(f"this slot judges for profile {self._plan.profile.name}, not {request.profile}")
        try:
            self._problem = registry.get(request.problem)
        except registry.UnknownProblem as error:
            raise NodeTrouble(str(error)) from error

    def _check_source(self) -> None:
        """Check the source without running it."""
        request = self._request
        with self._stage(Stage.PREPARING, "reading the source"):
            reading = self._read_source()
            found = reading.findings
            if self._plan.profile.gpu is not None:
                found += backends.missing(request.source, backend=request.backend, node=backends.Node.this())
        self._evidence.findings += found
        self._evidence.warnings += reading.warnings
        self._primitives = reading.primitives
        if verdicts.decide_before_ranks(found) is not None:
            raise Ended

    def _read_source(self) -> SourceReading:
        """What the source shows, read in a helper process that can be ended."""
        seconds = self._policy.within(self._settings.reading_s)
        try:
            text = self._helper.call(READ_SOURCE, self._request.to_json(), seconds=seconds)
        except HelperLimitExceeded as exceeded:
            raise SubmissionFault(Verdict.LIMIT_EXCEEDED, f"the source could not be read: {exceeded}") from exceeded
        return SourceReading.from_json(text)

    def _build(self) -> None:
        """Compile what the submission will ask for, before it occupies ranks."""
        if not is_needed(self._request):
            return
        with self._stage(Stage.BUILDING, "compiling"):
            self._built = self._builder.build(self._request, workdir=self._work_dir, sandbox=self._plan.confinement)
        self._evidence.findings += self._built.findings
        self._primitives += self._built.primitives
        self._evidence.findings += source_rules.check_machine_code(self._built.primitives, profile=self._plan.profile)
        if verdicts.decide_before_ranks(self._evidence.findings) is not None:
            raise Ended

    def _take_ranks(self, take_trusted: Callable[[], TrustedRanks], waiting: WaitingGroups) -> None:
        with self._stage(Stage.STARTING, "taking the ranks"), _without_the_submission():
            self._trusted = take_trusted()
            self._has_held_ranks = True
            self._group = waiting.take()
            self._group.start_ranks()
            if self._second_share:
                self._second = waiting.take()
                self._is_second_waited_for = self._second.has_ranks
                self._second.start_ranks()

    def _wait_for_ranks(self, waiting: WaitingGroups) -> None:
        """No rank may start during a measurement.

        Only a second group that had to be started just now starts while the first one imports and is verified.
        """
        with self._stage(Stage.STARTING, "waiting for the ranks"), _without_the_submission():
            self._ready_group().wait_until_ready(within=self._hold.answer, cancelled=self._cancelled)
            if self._second is not None and self._is_second_waited_for:
                self._second.wait_until_ready(within=self._hold.answer, cancelled=self._cancelled)
            if self._request.mode.is_timed:
                waiting.wait_until_ready()

    def _open_alone(self) -> None:
        """The reference's first calls at the first size, while the worker groups may still start.

        Not at `large`, where the oracle may need the memory that starting ranks need.
        """
        size = self._sizes[0]
        if self._request.mode is Mode.RANKED and size != SizeName.LARGE:
            with self._stage(Stage.STARTING, f"{size}: first calls of the reference"), _without_the_submission():
                self._opened_alone[size] = self._first_calls(size)

    def _first_calls(self, size: str) -> ReferenceClock:
        """The reference at a size, after its first calls."""
        trusted = self._ready_trusted()
        opened = trusted.open_size(
            problem=self._request.problem, size=size, dtype=self._dtype, key=secrets.token_bytes(32)
        )
        clock = ReferenceClock(trusted, opened, itertools.count())
        clock.open(calls=_ALONE_FIRST, seconds=_ALONE_S)
        return clock

    def _time_reference_alone(self) -> None:
        """Time the reference before any rank can read the submission. Later legs are compared with it."""
        if self._request.mode is not Mode.RANKED:
            return
        for size in self._sizes:
            with self._stage(Stage.STARTING, f"{size}: the reference alone"), _without_the_submission():
                clock = self._opened_alone.pop(size, None) or self._first_calls(size)
                self._ready_trusted().oracle.warm_up()
                for _ in range(_ALONE_SETTLING):
                    clock.time()
                self._alone[size] = self._calls_alone(clock)

    def _calls_alone(self, clock: ReferenceClock) -> Alone:
        gpus: list[GpuReading] = []
        with self._watch.around(MOMENT_ALONE, calls=_ALONE_CALLS, into=gpus):
            times = tuple(clock.time().time.longest_ns for _ in range(_ALONE_CALLS))
        return Alone(times_ns=times, gpus=tuple(gpus))

    def _import(self) -> Bare:
        """Measure the overhead of a call in the present group, then let it import the submission."""
        with self._stage(Stage.STARTING, "importing solution.py"), self._troubles(size=None):
            group = self._ready_group()
            # A second group may have been disturbed while the first ran the submission.
            with contextlib.nullcontext() if self._records else _without_the_submission():
                bare = self._bare() if self._request.mode.is_timed else Bare()
            self._memory = GpuMemory(self._plan.gpus, self._ready_trusted())
            if not self._records:
                self._refuse_slow_gpus()
            group.reveal(self._request.source, built=self._built)
            group.import_submission(seconds=self._policy.within(self._settings.import_s), cancelled=self._cancelled)
        return bare

    def _refuse_slow_gpus(self) -> None:
        """Judge the GPUs while no rank can read the submission; raises Ended where heat or power holds one back.

        What holds them back later may be the submission's own heat, which must not win it another try.
        """
        self._revealing = self._watch.read(MOMENT_REVEALING)
        if self._request.mode.is_timed and self._policy.does(Check.THROTTLING):
            seen = [reading for alone in self._alone.values() for reading in alone.gpus]
            found = throttling.before_the_submission((*seen, *self._revealing), self._plan.profile.timing_rules())
            if found is not None:
                self._evidence.findings.append(found)
                raise Ended

    def _bare(self) -> Bare:
        """Bare calls in sandbox and reference ranks, in turn, while the sandbox holds nothing of the submission."""
        group, trusted, world_size = self._ready_group(), self._ready_trusted(), self._plan.profile.world_size
        head = HeadStart(waits_for_queue=True, is_fixed=True)
        trusted.oracle.warm_up()
        pairs = [
            (
                group.bare(
                    _BARE_NUMBERS + number,
                    opening=new_opening(head, ranks=world_size),
                    seconds=self._settings.call_limit_s,
                    cancelled=self._cancelled,
                ).longest_ns,
                trusted.reference.bare(opening=new_opening(head, ranks=world_size)).longest_ns,
            )
            for number in range(_BARE_CALLS)
        ]
        sandbox_ns, reference_ns = zip(*pairs, strict=True)
        return Bare(sandbox_ns=sandbox_ns, reference_ns=reference_ns)

    def _run_sizes(self, bare: Bare, *, group_number: int, share: float) -> None:
        """Make all calls at all sizes in the present group, within a `share` of the evaluation's budget."""
        rig = Rig(
            problem=self._problem,
            dtype=self._dtype,
            key=self._key,
            plan=self._plan,
            trusted=self._ready_trusted(),
            group=self._ready_group(),
            group_number=group_number,
            bare=bare,
            memory=self._seen_memory(),
            watch=self._watch,
            evidence=self._evidence,
            policy=self._policy,
            draws=self._draws,
            numbers=self._numbers,
            first_call_s=self._first_call_s(),
            regimes=self._regimes(),
            only=self._only_regime(),
            budget_s=self._series_s * share / len(self._sizes),
            stages=self._stage,
        )
        for size in self._sizes:
            self._run_size(rig, size)

    def _regimes(self) -> dict[str, tuple[Regime, ...]]:
        """Regimes of checked calls by size: all at the first size, a few secret ones at every further size."""
        if self._request.regime or not self._policy.does(Check.REGIMES):
            return {}
        found: dict[str, tuple[Regime, ...]] = {}
        for size in self._sizes:
            regimes = self._problem.regimes_at(SizeName(size), self._plan.profile.world_size, self._dtype)
            count = self._settings.further_regimes if found else len(regimes)
            found[size] = tuple(secrets.SystemRandom().sample(regimes, min(count, len(regimes))))
        return found

    def _only_regime(self) -> Regime | None:
        return self._problem.regime(self._request.regime) if self._request.regime else None

    def _run_size(self, rig: Rig, size: str) -> None:
        with self._troubles(size=size):
            run = SizeRun(rig, size, known=self._known.get(size))
        self._buffers = run.buffers
        try:
            with self._troubles(size=size):
                run.verify()
                if self._request.mode.is_timed:
                    if self._second is not None:
                        self._second.wait_until_ready(within=self._hold.answer, cancelled=self._cancelled)
                    run.warm_up()
                    run.time()
                    if rig.group_number == 1:
                        run.loop()
                elif self._request.mode is Mode.PROFILE:
                    run.warm_up()
                if rig.group_number == 1 and self._settings.records_work:
                    run.count_links()
                    if size == self._sizes[-1]:
                        # Last, because a profiler may slow everything that runs after it.
                        work, recorded = run.record_work()
                        if recorded is not None:
                            self._timeline = Timeline(size=size, submission=recorded)
                        self._look_at_work(work)
        finally:
            # A record that ended early is evidence too.
            self._records.append(self._with_start(run.record()))
        self._known[size] = run.known()

    def _with_start(self, record: SizeRecord) -> SizeRecord:
        """The record, with what was seen at its size before the submission was revealed."""
        alone = self._alone.get(record.size, Alone())
        return msgspec.structs.replace(
            record, reference_alone_ns=alone.times_ns, gpus=(*alone.gpus, *self._revealing, *record.gpus)
        )

    def _record_reference(self) -> None:
        """Record a call of the reference for the timeline. No verdict uses it, so its failure fails nothing.

        It comes after everything that is timed, which another process on the GPUs could slow.
        """
        if self._timeline is None or not self._request.mode.records_reference:
            return
        size = self._timeline.size
        with self._stage(Stage.COMPARING, f"{size}: recording the reference"):
            try:
                recorded = self._references.take(
                    self._ready_trusted(), problem=self._request.problem, size=size, dtype=self._dtype
                )
            except EvaluatorError as error:
                logger.warning("evaluation %s: the reference was not recorded: %s", self.evaluation_id, error)
                self.has_stuck_ranks = True
                return
        self._timeline = msgspec.structs.replace(self._timeline, reference=recorded)

    def _look_at_work(self, work: RecordedWork) -> None:
        """Take primitives and hidden library collectives from the recorded call."""
        self._recorded_work = work
        if self._plan.profile.gpu is not None:
            self._primitives += recorded_work.detections(work.works)
        hidden = recorded_work.hidden_collectives(work.works, backend=self._request.backend)
        if hidden is not None and self._policy.counts_collectives:
            if self._request.mode is Mode.RANKED:
                self._evidence.findings.append(hidden)
                raise Ended
            self._evidence.warn(hidden)

    def _first_call_s(self) -> float:
        is_built = self._built is not None and bool(self._built.result.artefacts)
        # Some Triton kernels may depend on input values. Those are compiled in the first call.
        is_complete = is_built and self._request.backend is not Backend.TRITON
        may_build = self._request.backend is not Backend.PYTORCH and not is_complete
        return self._settings.lazy_build_s if may_build else self._settings.first_call_s

    @property
    def _series_s(self) -> float:
        """How many seconds the timed series of all sizes and groups may take."""
        is_ranked = self._plan.profile.is_ranked_by_speed
        return self._settings.series_s if is_ranked else self._settings.practice_series_s

    @property
    def _second_share(self) -> float:
        """The share of the series that a second worker group runs; 0 where there is none."""
        if self._request.mode is not Mode.RANKED or not self._policy.does(Check.SECOND_GROUP):
            return 0.0
        share = self._settings.second_group_share
        return self._plan.profile.timing_policy.second_group_share if share is None else share

    def _run_second_group(self) -> None:
        """Run part of a ranked series again in a new group with other secrets. Its times count like the first's."""
        second, self._second = self._second, None
        if second is None:
            return
        self._evidence.ranks = rank_states(self._ready_group().observe_finished())
        self._end_groups()
        self._group = second
        self._key = hashlib.sha256(self._key + b"second worker group").digest()
        # It has waited while the first group was timed.
        second.wait_until_ready(within=self._hold.answer, cancelled=self._cancelled)
        try:
            self._run_sizes(self._import(), group_number=2, share=self._second_share)
        except Ended:
            self._evidence.note_disagreement()
            raise

    def _conclude(self) -> None:
        """All evidence is complete: compute the timing and note the pass."""
        if self._request.mode.is_timed:
            with self._stage(Stage.COMPARING, "comparing with the reference"):
                self._timing, against = timing.conclude(
                    self._records, self._plan.profile.timing_rules(), without=self._settings.without
                )
            self._evidence.findings += against
        self._evidence.ranks = rank_states(self._ready_group().observe_finished())
        checked = sum(at_size.checked_calls for at_size in self._evidence.sizes)
        message = f"correct on {self._plan.profile.world_size} ranks in all {checked} checked calls"
        if drawn := {call.regime for size in self._records for call in size.calls if call.regime}:
            message += f", also in {len(drawn)} regime{'s' if len(drawn) > 1 else ''} that are not timed"
        if self._timing is not None:
            message += _speed(self._timing)
        self._evidence.findings.append(Finding(verdict=Verdict.PASSED, message=message))

    @contextmanager
    def _troubles(self, *, size: str | None) -> Iterator[None]:
        """Turn the end of a worker group into findings, and note the states of its ranks."""
        try:
            yield
        except GroupTrouble as trouble:
            found = [
                msgspec.structs.replace(finding, message=finding.message + in_words(self._evidence.regime))
                for finding in self._blamed(findings_of(trouble, size=size), trouble)
            ]
            self._evidence.findings += [self._with_memory(finding) for finding in found]
            self._evidence.ranks = rank_states(trouble.observations)
            raise Ended from trouble
        except OutOfDeviceMemory as error:
            self._evidence.findings.append(self._greed(error, size=size))
            self._evidence.ranks = rank_states(self._ready_group().observe_finished())
            raise Ended from error
        except Ended:
            self._evidence.ranks = rank_states(self._ready_group().observe_finished())
            raise

    def _with_memory(self, finding: Finding) -> Finding:
        """The finding; one about memory also says how much GPU memory judge and submission used."""
        memory = self._memory.look() if self._memory is not None else None
        if finding.verdict is not Verdict.OUT_OF_MEMORY or memory is None:
            return finding
        return msgspec.structs.replace(finding, message=f"{gpu_memory.in_words(memory)}: {finding.message}")

    def _greed(self, error: OutOfDeviceMemory, *, size: str | None) -> Finding:
        """The finding where the submission left the judge no GPU memory; otherwise the error is raised."""
        memory = self._held = self._memory.look() if self._memory is not None else None
        if memory is None or memory.submission_bytes <= gpu_memory.SUBMISSIONS_SHARE * memory.total_bytes:
            raise error
        message = f"the submission left too little GPU memory for its inputs or outputs; {gpu_memory.in_words(memory)}"
        return Finding(verdict=Verdict.OUT_OF_MEMORY, message=message, size=size)

    def _blamed(self, findings: tuple[Finding, ...], trouble: GroupTrouble) -> tuple[Finding, ...]:
        """The findings; without a sandbox a submission can kill its launcher, which is no JUDGE_ERROR then."""
        has_ended = any(incident.kind is IncidentKind.SANDBOX_ENDED for incident in trouble.incidents)
        if self._plan.confinement.level is not SandboxLevel.NONE or not has_ended:
            return findings
        message = "the process that started the ranks ended; without a sandbox a submission can cause that"
        return tuple(
            Finding(verdict=Verdict.CRASHED, message=message, size=finding.size)
            if finding.verdict is Verdict.JUDGE_ERROR
            else finding
            for finding in findings
        )

    def _ready_group(self) -> WorkerGroup:
        if self._group is None:
            raise EvaluatorError("there is no worker group")
        return self._group

    def _seen_memory(self) -> GpuMemory:
        if self._memory is None:
            raise EvaluatorError("the memory of the GPUs has not been read")
        return self._memory

    def _ready_trusted(self) -> TrustedRanks:
        if self._trusted is None:
            raise EvaluatorError("there are no trusted ranks")
        return self._trusted

    # ---- the report -------------------------------------------------------------------------------------------

    def report(
        self,
        *,
        started_at: str,
        finished_at: str,
        canaries: tuple[Canary, ...],
        driver_faults: tuple[DriverFault, ...] | None,
    ) -> EvaluationReport:
        """The report. A pass needs its finding; without any finding the verdict is JUDGE_ERROR."""
        evidence, request = self._evidence, self._request
        self._progress(Stage.REPORTING, "writing the report", None)
        decided = self._decided()
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
            findings=(*evidence.findings, *self._afterwards),
            stages=evidence.stage_times(),
            sizes=tuple(at_size.result() for at_size in evidence.sizes),
            timing=self._timing if decided.verdict is Verdict.PASSED else None,
            record=self._record(),
            warnings=tuple(evidence.warnings),
            ranks=evidence.ranks,
            build=self._built.result if self._built is not None else None,
            primitives=self._primitives,
            recorded_work=self._recorded_work,
            timeline=self._timeline,
            machine_code=self._machine_code(),
            alarms=self._alarms(),
            canaries=canaries,
            driver_faults=driver_faults,
            sandbox=self._plan.confinement.level,
            buffers=self._buffers,
            commitment=self._commitment,
            environment=self._environment(),
            started_at=started_at,
            finished_at=finished_at,
        )

    def _machine_code(self) -> MachineCode | None:
        """The kernels of the build with source lines, those of the recorded call first."""
        code = self._built.code if self._built is not None else None
        if code is None:
            return None
        recorded = self._timeline.submission.names if self._timeline is not None else ()
        return kernel_code.reported(code, frozenset(name.name for name in recorded))

    def _decided(self) -> Finding:
        """The finding that decides; JUDGE_ERROR without any."""
        return verdicts.decide(
            self._evidence.findings or [Finding(verdict=Verdict.JUDGE_ERROR, message=_FOR_THE_AUTHOR)]
        )

    def _alarms(self) -> tuple[str, ...]:
        rules = self._plan.profile.timing_rules()
        found = reference_drift.alarms(self._records) + throttling.alarms(self._records, rules)
        for sentence in found:
            logger.warning("evaluation %s: %s", self._request.evaluation_id, sentence)
        return found

    def _record(self) -> Record | None:
        if not self._records:
            return None
        return Record(rules=self._plan.profile.timing_rules(), sizes=tuple(self._records))

    def _environment(self) -> dict[str, str]:
        missing = "; ".join(item.name for item in self._plan.confinement.missing)
        return {
            **facts.environment(),
            "judge": facts.judge_digest(),
            "sandbox.missing": missing,
            "attempt": str(self._request.attempt),
            **self._settings.as_record(),
        }
