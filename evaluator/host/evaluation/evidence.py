"""The evidence of one evaluation: what its stages returned, its findings, and the errors of the judge beside them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from evaluator.contract import (
    MOST_ERROR_MAPS,
    BufferKind,
    CallTimeline,
    Detection,
    Finding,
    GpuReading,
    PublishedTime,
    RankState,
    RecordedWork,
    SizeRecord,
    SizeResult,
    SweepPoint,
    Timeline,
    Timing,
    Verdict,
)
from evaluator.errors import SubmissionFault
from evaluator.host.building.builder import Built
from evaluator.host.evaluation.failures import JudgeOutOfMemory
from evaluator.host.evaluation.handover import IsolatedTimes
from evaluator.host.measure import gpu_memory
from evaluator.host.measure.evidence import Ended, joined, warn_once
from evaluator.host.measure.size_run import SizeRun
from evaluator.host.ranks.trusted_client import OutOfDeviceMemory
from evaluator.judging import recorded_work, verdicts
from evaluator.judging.reading import SourceReading
from problems.spec.schema import parts_of

_FOR_THE_AUTHOR = (
    "the judge had an internal error while it handled this submission; its node works, and the operator has the log"
)
_MESSAGE_CHARACTERS = 300
_MOST_FINDINGS, _FINDING_CHARACTERS = 500, 4000
"""The contract takes little more, and an exception says what its author likes."""
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


class Findings:
    """Findings on a submission to `problem` in the order of time, and errors of the judge, which may decide too."""

    def __init__(self, problem: str) -> None:
        self._problem = problem
        self._found: list[Finding] = []
        self._afterwards: list[Finding] = []
        self._shortage: Finding | None = None
        self.left_out = 0
        """So many findings more than a report takes."""

    @property
    def all(self) -> tuple[Finding, ...]:
        """All of them; errors of the judge after a verdict come last."""
        return (*self._found, *self._afterwards)

    @property
    def decided(self) -> Finding:
        """The finding that decides; JUDGE_ERROR without any."""
        return verdicts.decide(self._found or [Finding(verdict=Verdict.JUDGE_ERROR, message=_FOR_THE_AUTHOR)])

    @property
    def ended_badly(self) -> bool:
        """Whether a rank crashed or hung, the judge failed, or nothing says how it ended, as after a cancellation."""
        return not self._found or any(finding.verdict in _BAD_ENDS for finding in self._found)

    @property
    def awaits_proof(self) -> bool:
        """Whether an error of the judge decides so far; it becomes JUDGE_FAILURE if the node turns out to be faulty."""
        return bool(self._found) and (self._shortage is not None or self.decided.verdict is Verdict.JUDGE_ERROR)

    @property
    def ended_well(self) -> bool:
        """Whether nothing has to be examined: the next ranks may start while those of this evaluation end."""
        return not self.ended_badly and not self.awaits_proof

    def add(self, findings: Sequence[Finding]) -> None:
        """Keep `findings`, as many and as much of their words and maps as a report takes: the first ones."""
        room = max(0, _MOST_FINDINGS - len(self._found))
        self.left_out += len(findings[room:])
        for finding in findings[:room]:
            has_room = sum(known.error_map is not None for known in self._found) < MOST_ERROR_MAPS
            if len(finding.message) > _FINDING_CHARACTERS:
                finding = msgspec.structs.replace(finding, message=f"{finding.message[:_FINDING_CHARACTERS]} [...]")  # noqa: PLW2901
            self._found.append(finding if has_room else msgspec.structs.replace(finding, error_map=None))

    def add_before_ranks(self, findings: Sequence[Finding]) -> None:
        """Keep what was found before the ranks start; raises Ended where that decides."""
        self.add(findings)
        if verdicts.decide_before_ranks(self._found) is not None:
            raise Ended(())

    def add_fault(self, fault: SubmissionFault) -> None:
        """Keep a fault of the submission as a finding."""
        self.add([Finding(verdict=fault.verdict, message=fault.message)])

    def add_error(self, error: Exception, *, is_nodes: bool) -> None:
        """Note an error of the judge. An earlier verdict stays, with the error beside it.

        Args:
            error: what went wrong.
            is_nodes: whether the node proved to be faulty; otherwise the error is attributed to the submission.
        """
        found = self._of(error, is_nodes=is_nodes)
        if is_nodes and self._found and self.awaits_proof:
            self._found, self._shortage = [found], None
        elif self._found:
            self._afterwards.append(found)
        else:
            self._found.append(found)
            self._shortage = found if found.verdict is Verdict.UNSUPPORTED else None

    def _of(self, error: Exception, *, is_nodes: bool) -> Finding:
        """The finding for an error of the judge. A lack of memory is never charged; another try would end so too."""
        if is_nodes:
            return Finding(verdict=Verdict.JUDGE_FAILURE, message=_first_line(error))
        if isinstance(error, OutOfDeviceMemory):
            return Finding(verdict=Verdict.UNSUPPORTED, message=self._describe_shortage(error))
        return Finding(verdict=Verdict.JUDGE_ERROR, message=_FOR_THE_AUTHOR)

    def _describe_shortage(self, error: OutOfDeviceMemory) -> str:
        memory = error.memory if isinstance(error, JudgeOutOfMemory) else None
        figures = "" if memory is None else f"; {gpu_memory.describe(memory)}"
        return (
            f"the judge had no memory left for inputs, expected outputs or comparisons of {self._problem} "
            f"beside this submission. Without it the judge has enough{figures}"
        )


def _first_line(error: Exception) -> str:
    """The first line of an error. Tracebacks of trusted processes go only to the operator's log."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_MESSAGE_CHARACTERS]


def passed(world_size: int, *, results: Sequence[SizeResult], records: Sequence[SizeRecord]) -> Finding:
    """The pass, in words. Its speed is shown from the times, by the rule of the page or command that shows it."""
    checked = sum(result.checked_calls for result in results)
    message = f"correct on {world_size} ranks in all {checked} checked calls"
    met = [parts_of(call.regime) for record in records for call in record.calls]
    if names := {name for parts in met for name in parts}:
        pairs = len({pair for parts in met for pair in itertools.combinations(sorted(parts), 2)})
        message += f", also in {len(names)} {'regimes that are' if len(names) > 1 else 'regime that is'} not timed"
        message += f" and {pairs} pairs of them" if pairs else ""
    return Finding(verdict=Verdict.PASSED, message=message)


def passed_as_published(results: Sequence[SizeResult], found: PublishedTime | None) -> Finding:
    """The pass in mode published, in words."""
    calls = f"{sum(result.checked_calls for result in results)} usual calls"
    message = f"correct by the published rule in {calls}, which is less than other modes check"
    if found is not None:
        message += f"; {found.submission_us:.1f} us against {found.reference_us:.1f} us of the reference"
        message += " by the published protocol" + (f" ({found.lacks})" if found.lacks else "")
    return Finding(verdict=Verdict.PASSED, message=message)


def disagreement(findings: Sequence[Finding]) -> Finding:
    """The finding where the first worker group was correct and the second ended with `findings`."""
    last = findings[-1]
    message = f"correct in one worker group, not in a second one: {last.message}"
    return Finding(verdict=Verdict.NONDETERMINISTIC, message=message, size=last.size)


_NOTHING_READ = SourceReading(findings=())


@dataclass(kw_only=True)
class Outcomes:
    """What the stages have returned so far: only `Evaluation` writes it. Its properties join what several returned.

    Attributes:
        reading: of the source.
        built: what was compiled; None where nothing had to be.
        ranks_wait_s: for how long everything waited for ranks, in seconds.
        isolated: by size, the reference before any rank could read the submission.
        at_handover: the GPUs just before the handover.
        sizes: of every worker group, in the order of time.
        reference: the recorded call of the reference.
        ranks: their last known states.
        timing: None where nothing was timed to the end.
        points: of a sweep, those that were measured or refused.
        published: the times of mode published.
    """

    reading: SourceReading = _NOTHING_READ
    built: Built | None = None
    ranks_wait_s: float | None = None
    isolated: Mapping[str, IsolatedTimes] = field(default_factory=dict)
    at_handover: tuple[GpuReading, ...] = ()
    sizes: list[SizeRun] = field(default_factory=list)
    reference: CallTimeline | None = None
    ranks: tuple[RankState, ...] = ()
    timing: Timing | None = None
    points: list[SweepPoint] = field(default_factory=list)
    published: PublishedTime | None = None

    @property
    def by_size(self) -> dict[str, SizeRun]:
        """The last run at every size."""
        return {run.size: run for run in self.sizes}

    @property
    def buffers(self) -> BufferKind:
        """How inputs reached the ranks."""
        return self.sizes[-1].opened.buffers if self.sizes else BufferKind.HOST_MEMORY

    @property
    def records(self) -> tuple[SizeRecord, ...]:
        """The records of all groups, with what was seen at each size before the submission was handed over."""
        return tuple(self._with_start(run.series.record()) for run in self.sizes)

    def _with_start(self, record: SizeRecord) -> SizeRecord:
        isolated = self.isolated.get(record.size, IsolatedTimes())
        return msgspec.structs.replace(
            record, reference_alone_ns=isolated.times_ns, gpus=(*isolated.gpus, *self.at_handover, *record.gpus)
        )

    @property
    def results(self) -> tuple[SizeResult, ...]:
        """The checks at every size, those of all groups together."""
        found: dict[str, SizeResult] = {}
        for run in self.sizes:
            result, known = run.at_size.result(), found.get(run.size)
            found[run.size] = result if known is None else joined(known, result)
        return tuple(found.values())

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What would be findings in ranked mode, each once."""
        found = list(self.reading.warnings)
        for warning in itertools.chain.from_iterable(run.at_size.warnings for run in self.sizes):
            warn_once(found, warning)
        return tuple(found)

    @property
    def recorded_work(self) -> RecordedWork | None:
        """What ran in the submission's recorded call; None where there was none."""
        return next((run.work for run in self.sizes if run.work is not None), None)

    @property
    def timeline(self) -> Timeline | None:
        """The recorded calls of submission and reference."""
        for run in self.sizes:
            if run.timeline is not None:
                return Timeline(size=run.size, submission=run.timeline, reference=self.reference)
        return None

    def primitives(self, *, is_on_gpus: bool) -> tuple[Detection, ...]:
        """Those found in the source, in machine code, and in the recorded call, which counts on GPUs only."""
        work = self.recorded_work if is_on_gpus else None
        return (
            *self.reading.primitives,
            *(self.built.primitives if self.built is not None else ()),
            *(recorded_work.detections(work.works) if work is not None else ()),
        )
