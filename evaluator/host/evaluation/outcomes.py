"""What the stages of one evaluation have returned, for the report."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from evaluator.contract import (
    BufferKind,
    CallTimeline,
    Detection,
    Finding,
    GpuReading,
    RankState,
    RecordedWork,
    SizeRecord,
    SizeResult,
    Timeline,
    Timing,
)
from evaluator.host.building.builder import Built
from evaluator.host.evaluation.before_reveal import TimesAlone
from evaluator.host.measure.evidence import joined, warn_once
from evaluator.host.measure.size_run import SizeOutcome
from evaluator.judging import recorded_work
from evaluator.judging.reading import SourceReading

_NOTHING_READ = SourceReading(findings=())


@dataclass(kw_only=True)
class Outcomes:
    """What the stages have returned so far: only `Evaluation` writes it. Its properties join what several returned.

    Attributes:
        reading: of the source.
        built: what was compiled; None where nothing had to be.
        ranks_wait_s: for how long everything waited for ranks, in seconds.
        alone: by size, the reference before any rank could read the submission.
        revealing: the GPUs just before the reveal.
        sizes: of every worker group, in the order of time.
        reference: the recorded call of the reference.
        ranks: their last known states.
        timing: None where nothing was timed to the end.
    """

    reading: SourceReading = _NOTHING_READ
    built: Built | None = None
    ranks_wait_s: float | None = None
    alone: Mapping[str, TimesAlone] = field(default_factory=dict)
    revealing: tuple[GpuReading, ...] = ()
    sizes: list[SizeOutcome] = field(default_factory=list)
    reference: CallTimeline | None = None
    ranks: tuple[RankState, ...] = ()
    timing: Timing | None = None

    @property
    def by_size(self) -> dict[str, SizeOutcome]:
        """The last outcome at every size."""
        return {outcome.record.size: outcome for outcome in self.sizes}

    @property
    def buffers(self) -> BufferKind:
        """How inputs reached the ranks."""
        return self.sizes[-1].buffers if self.sizes else BufferKind.HOST_MEMORY

    @property
    def records(self) -> tuple[SizeRecord, ...]:
        """The records of all groups, with what was seen at each size before the submission was revealed."""
        return tuple(self._with_start(outcome.record) for outcome in self.sizes)

    def _with_start(self, record: SizeRecord) -> SizeRecord:
        alone = self.alone.get(record.size, TimesAlone())
        return msgspec.structs.replace(
            record, reference_alone_ns=alone.times_ns, gpus=(*alone.gpus, *self.revealing, *record.gpus)
        )

    @property
    def results(self) -> tuple[SizeResult, ...]:
        """The checks at every size, those of all groups together."""
        found: dict[str, SizeResult] = {}
        for outcome in self.sizes:
            size, known = outcome.record.size, found.get(outcome.record.size)
            found[size] = outcome.result if known is None else joined(known, outcome.result)
        return tuple(found.values())

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What would be findings in ranked mode, each once."""
        found = list(self.reading.warnings)
        for warning in itertools.chain.from_iterable(outcome.warnings for outcome in self.sizes):
            warn_once(found, warning)
        return tuple(found)

    @property
    def recorded_work(self) -> RecordedWork | None:
        """What ran in the submission's recorded call; None where there was none."""
        return next((outcome.work for outcome in self.sizes if outcome.work is not None), None)

    @property
    def timeline(self) -> Timeline | None:
        """The recorded calls of submission and reference."""
        for outcome in self.sizes:
            if outcome.timeline is not None:
                return Timeline(size=outcome.record.size, submission=outcome.timeline, reference=self.reference)
        return None

    def primitives(self, *, is_on_gpus: bool) -> tuple[Detection, ...]:
        """Those found in the source, in machine code, and in the recorded call, which counts on GPUs only."""
        work = self.recorded_work if is_on_gpus else None
        return (
            *self.reading.primitives,
            *(self.built.primitives if self.built is not None else ()),
            *(recorded_work.detections(work.works) if work is not None else ()),
        )
