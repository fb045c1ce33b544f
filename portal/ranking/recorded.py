"""Entries that were judged elsewhere and ship with the problems, in `problems/data/entries`.

Each is computed again on the way in, and carries a mark wherever it is shown. Their reports lie beside the sources.

`reports/*.json` (or `.json.gz`) are whole reports of any schema. `judgements_*.json` are summaries of ranked judgements
by the first rule of scoring: blocks, medians per size, stages. Nothing else is taken for a report.
"""

import gzip
import json
import math
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db import transaction
from django.db.models import QuerySet

from evaluator.contract import (
    Backend,
    BufferKind,
    ContractError,
    Detection,
    EvaluationReport,
    EvidenceSource,
    Message,
    Mode,
    Primitive,
    SandboxLevel,
    SizeTiming,
    SourceBundle,
    SourceFile,
    Stage,
    StageTime,
    TimeSummary,
    Timing,
    Verdict,
)
from evaluator.contract.earlier import FIRST_SCHEMA
from evaluator.hardware import profiles
from evaluator.judging import primitives
from evaluator.judging.recompute import recompute
from evaluator.judging.statistics import median_interval
from portal.accounts.actions import own_author
from portal.ranking.actions import forget, order_records
from portal.submissions.actions import store_sources
from portal.submissions.hooks import EvaluationEnded, evaluation_ended
from portal.submissions.models import Evaluation, Report, Source, State, Submission, Visibility
from problems import registry

FOLDER = registry.DATA / "entries"
NOTE = "written by hand by this site's authors"
_NAMESPACE = uuid.UUID("6f1c0a52-7f0e-5d0f-9f5a-0d6f5a1c9b11")
_ROUNDED = 5e-4
"""How far a summary, which keeps four decimals, may differ from the result of its own blocks."""


class NotRecorded(Exception):
    """A report or its source cannot be taken; the message says why."""


class _JudgedSize(Message, frozen=True, kw_only=True):
    """One size of a summary: medians and spread in microseconds."""

    size: str
    ours_us: float
    p10_us: float
    p90_us: float
    reference_us: float
    floor_us: float | None = None


class _Link(Message, frozen=True, kw_only=True):
    """What the links carried in a call, per rank."""

    size: str
    sent_bytes: tuple[int, ...]
    received_bytes: tuple[int, ...]
    least_bytes: float


class _Judgement(Message, frozen=True, kw_only=True):
    """One evaluation of a summary."""

    problem: str
    profile: str
    verdict: Verdict
    mode: Mode
    backend: Backend
    score: float
    low: float
    high: float
    held_s: float
    programs_s: float
    started_at: str
    finished_at: str
    source_digest: str
    revision: str
    commitment: str
    sandbox: SandboxLevel
    slots: BufferKind
    stages: dict[Stage, float]
    sizes: tuple[_JudgedSize, ...]
    blocks: tuple[float, ...]
    checked_calls: int
    primitives: tuple[str, ...]
    links: tuple[_Link, ...]

    def report(self, environment: dict[str, str]) -> EvaluationReport:
        """What the summary kept, as the report that it was taken from."""
        return EvaluationReport(
            schema_version=FIRST_SCHEMA,
            evaluation_id="",
            problem=self.problem,
            revision=self.revision,
            source_digest=self.source_digest,
            backend=self.backend,
            profile=self.profile,
            world_size=profiles.get(self.profile).world_size,
            mode=self.mode,
            dtype="bfloat16",
            verdict=self.verdict,
            message="Accepted. This is the stored summary of the evaluation.",
            stages=tuple(StageTime(stage=stage, seconds=seconds) for stage, seconds in self.stages.items()),
            timing=Timing(
                score=self.score,
                low=self.low,
                high=self.high,
                blocks=self.blocks,
                sizes=tuple(_size(size) for size in self.sizes),
                coverage=0.96,
                rule=1,
            ),
            primitives=tuple(_detection(text) for text in self.primitives),
            sandbox=self.sandbox,
            buffers=self.slots,
            commitment=self.commitment,
            environment=environment,
            started_at=self.started_at,
            finished_at=self.finished_at,
        )


def _size(size: _JudgedSize) -> SizeTiming:
    reference = size.reference_us
    return SizeTiming(
        size=size.size,
        candidate=TimeSummary(median_us=size.ours_us, p10_us=size.p10_us, p90_us=size.p90_us, calls=0),
        baseline=TimeSummary(median_us=reference, p10_us=reference, p90_us=reference, calls=0),
        ratios=(),
        rank_medians_us=(),
        floor_us=size.floor_us,
    )


def _detection(text: str) -> Detection:
    primitive, _, evidence = text.partition("/")
    return Detection(primitive=Primitive(primitive), evidence=EvidenceSource(evidence), detail="as in the summary")


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A report that ships with the problems, and its path."""

    path: Path
    report: EvaluationReport

    @property
    def name(self) -> str:
        """What it is called when something is wrong with it."""
        return f"{self.report.problem} on {self.report.profile} ({self.path.name})"

    @property
    def is_older(self) -> bool:
        """Whether its problem has changed since."""
        known = {problem.slug for problem in registry.problems()}
        slug = self.report.problem
        return slug not in known or registry.revision(slug) != self.report.revision

    @property
    def evaluation_id(self) -> uuid.UUID:
        """The same key for the same evaluation, so that it is imported once."""
        report = self.report
        parts = (report.problem, report.profile, report.source_digest, report.finished_at)
        return uuid.uuid5(_NAMESPACE, "/".join(parts))


def shipped(folder: Path) -> Iterator[Recorded]:
    """Every report that ships in `folder`; raises NotRecorded for a file that is none."""
    for path in sorted((folder / "reports").glob("*.json*")):
        yield Recorded(path=path, report=_read(path))
    for path in sorted(folder.glob("judgements_*.json")):
        summary = json.loads(path.read_bytes())
        for entry in summary["judgements"]:
            try:
                judgement = _Judgement.from_json(json.dumps(entry))
            except ContractError as error:
                raise NotRecorded(f"{path} holds no evaluation: {error}") from error
            yield Recorded(path=path, report=judgement.report(summary["environment"]))


def _read(path: Path) -> EvaluationReport:
    """The whole report in a file; raises NotRecorded."""
    try:
        return EvaluationReport.from_json(
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        )
    except (ContractError, OSError, EOFError, zlib.error) as error:
        raise NotRecorded(f"{path} is no report: {error}") from error


def ship(path: Path, folder: Path | None = None) -> Path:
    """Put a whole report on one of the kernels beside it, so that fresh sites show it; returns the new path.

    A later report on the same kernel and profile stands beside the earlier one, unless it is of the same day.

    Raises:
        NotRecorded: it is no report, is on another text than the kernel's, did not pass, or contradicts its record.
    """
    folder, report = folder or FOLDER, _read(path)
    check(report, _source(report, folder))
    day = datetime.fromisoformat(report.finished_at).date().isoformat()
    target = folder / "reports" / f"{report.problem}_{report.profile}_{day}.json.gz"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(gzip.compress(report.to_json().encode(), mtime=0))
    return target


def check(report: EvaluationReport, source: SourceBundle) -> None:
    """Check a report against its source and against its own record of calls.

    Raises:
        NotRecorded: it is of another source, is not an accepted ranked evaluation, or contradicts its record.
    """
    if report.source_digest != source.digest:
        raise NotRecorded("the source has changed since the evaluation")
    if report.verdict is not Verdict.PASSED or report.mode is not Mode.RANKED or report.timing is None:
        raise NotRecorded(
            f"it is not an accepted ranked evaluation but {report.verdict.value} in mode {report.mode.value}"
        )
    if report.schema_version == FIRST_SCHEMA:
        found = median_interval(report.timing.blocks)
        for name in ("score", "low", "high"):
            said, given = getattr(report.timing, name), getattr(found, name)
            if not math.isclose(said, given, rel_tol=_ROUNDED):
                raise NotRecorded(f"it says {name} {said:.6g}, its blocks give {given:.6g}")
    elif differences := recompute(report).differences:
        raise NotRecorded("; ".join(differences))


@dataclass(frozen=True, kw_only=True)
class ImportOutcome:
    """The result of an import: new reports, known ones, and why others were refused.

    `older` of the new ones were judged at an older revision of their problem: they are on no current board.
    """

    added: int
    older: int
    kept: int
    refused: tuple[str, ...]


def add(folder: Path | None = None) -> ImportOutcome:
    """Put every report that ships in `folder` (the problems' own unless given) on its board, once.

    An entry whose report ships at another revision since, as after an update of the site, is replaced.
    """
    folder = folder or FOLDER
    present = dict(Evaluation.objects.filter(recorded_on__isnull=False).values_list("pk", "problem_revision"))
    added, older, kept, refused = 0, 0, 0, []
    for recorded in shipped(folder):
        if present.get(recorded.evaluation_id) == recorded.report.revision:
            kept += 1
            continue
        try:
            with transaction.atomic():
                _delete(Evaluation.objects.filter(pk=recorded.evaluation_id))
                _add(recorded, folder)
            added += 1
            older += recorded.is_older
        except NotRecorded as reason:
            refused.append(f"{recorded.name}: {reason}")
    return ImportOutcome(added=added, older=older, kept=kept, refused=tuple(refused))


def _add(recorded: Recorded, folder: Path) -> None:
    """One report with its source, evaluation and standing, or nothing of it; raises NotRecorded."""
    take(recorded.report, _source(recorded.report, folder), pk=recorded.evaluation_id)


def _source(report: EvaluationReport, folder: Path) -> SourceBundle:
    """The kernel that ships for the report's problem; raises NotRecorded."""
    try:
        text = (folder / f"{report.problem}.py").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotRecorded(f"there is no source {error.filename}") from error
    return SourceBundle(files=(SourceFile(path=SourceBundle.ENTRY, text=text),))


def take(report: EvaluationReport, source: SourceBundle, *, pk: uuid.UUID) -> Evaluation:
    """Store a report that was made elsewhere, with its source, as this site's own entry; raises NotRecorded."""
    check(report, source)
    ended = datetime.fromisoformat(report.finished_at)
    with transaction.atomic():
        submission = _submission(report, source, created_at=ended)
        evaluation = Evaluation.objects.create(pk=pk, submission=submission, **columns_of(report, ended=ended))
        content = {**json.loads(report.to_json()), "evaluation_id": str(evaluation.pk)}
        Report.objects.create(
            evaluation=evaluation, attempt=1, node_name=evaluation.recorded_where, content=content, received_at=ended
        )
        evaluation_ended.send(EvaluationEnded(evaluation=evaluation))
        order_records(evaluation)
    return evaluation


def columns_of(report: EvaluationReport, *, ended: datetime) -> dict[str, object]:
    """The columns of an evaluation that a report from elsewhere fills."""
    profile, timing = profiles.get(report.profile), report.timing
    began = datetime.fromisoformat(report.started_at) if report.started_at else ended
    return {
        "problem_revision": report.revision,
        "profile": report.profile,
        "mode": report.mode.value,
        "state": State.FINISHED,
        "queued_at": began,
        "started_at": began,
        "finished_at": ended,
        "verdict": report.verdict.value,
        "message": report.message,
        "score": timing.score if timing else None,
        "score_low": timing.low if timing else None,
        "score_high": timing.high if timing else None,
        "score_rule": timing.rule if timing else None,
        "primitives": [found.value for found in primitives.names(report.primitives)],
        "recorded_on": ended.date(),
        "recorded_where": f"{profile.world_size} {profile.gpu or 'CPU ranks'}",
    }


def _submission(report: EvaluationReport, source: SourceBundle, *, created_at: datetime) -> Submission:
    """The submission of a source, shared by its judgements on several profiles."""
    store_sources([source])
    found, _ = Submission.objects.get_or_create(
        author=own_author(),
        idempotency_key=f"recorded {source.digest}"[:100],
        defaults={
            "problem": report.problem,
            "source": Source.objects.get(digest=source.digest),
            "backend": report.backend.value,
            "visibility": Visibility.PUBLIC,
            "asked_visibility": Visibility.PUBLIC,
            "note": NOTE,
            "created_at": created_at,
        },
    )
    return found


@transaction.atomic
def remove() -> int:
    """Take every recorded entry away, with what was derived from it; returns how many there were.

    What this site judged stays, also of the same sources.
    """
    return _delete(Evaluation.objects.filter(recorded_on__isnull=False, submission__is_attempt=False))


def _delete(recorded: QuerySet[Evaluation]) -> int:
    pks = list(recorded.values_list("pk", flat=True))
    submissions = list(recorded.values_list("submission", flat=True).distinct())
    forget(recorded)
    Report.objects.filter(evaluation__in=pks).delete()
    Evaluation.objects.filter(pk__in=pks).delete()
    Submission.objects.filter(pk__in=submissions, evaluations__isnull=True).delete()
    return len(pks)
