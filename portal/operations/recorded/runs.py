"""Runs of models that ship with the problems: what was judged, without the programs' text.

Each run is two files in `problems/data/entries/runs`: `NAME.json` says what the run is and lists its programs by
digest, and `NAME.reports.xz` holds their reports. Reports are computed again on the way in, and every page that shows
such a run says when and on what it was judged.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

from django.db import transaction
from django.db.models import QuerySet

from evaluator.contract import Backend, ContractError, EvaluationReport, Message, Mode, SourceBundle, Verdict
from evaluator.judging.recompute import recompute
from portal.accounts.actions import own_author
from portal.accounts.models import Organisation
from portal.operations.recorded.kernels import FOLDER as KERNELS
from portal.operations.recorded.reports import (
    NotRecorded,
    delete,
    hardware,
    read_reports,
    store,
)
from portal.runs.actions.creating import RunDeclaration, check_declaration, model_of
from portal.runs.models import Attempt, AttemptState, EventKind, Run, RunEvent, RunState, Verification
from portal.submissions.models import Evaluation, Source, Submission, Visibility

FOLDER = KERNELS / "runs"
ORGANISATION = "recorded"
DECLARED = ("mode", "k", "backend", "profile", "prompt_version")
"""What a run and its file have alike."""


class RecordedProgram(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program of a recorded run. Without a report it was refused by its text (`verdict`) or not judged yet."""

    problem: str
    digest: str
    backend: Backend
    sample: int = 0
    step: int = 0
    verdict: Verdict | None = None
    message: str = ""
    evaluation: str = ""


class RecordedRun(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a recorded run is. `backend` is what the model was asked for, `published_by` who published the programs."""

    id: str
    model: str
    version: str
    provider: str
    mode: str
    k: int
    backend: str
    profile: str
    prompt_version: str
    notes: str
    published_by: str
    created_at: str
    programs: tuple[RecordedProgram, ...]


def shipped() -> Iterator[tuple[str, RecordedRun, dict[str, EvaluationReport]]]:
    """Every run that ships: its name, what it is, and its reports by evaluation; raises NotRecorded."""
    for path in sorted(FOLDER.glob("*.json")):
        try:
            run = RecordedRun.from_json(path.read_bytes())
        except (ContractError, OSError) as error:
            raise NotRecorded(f"{path} is no recorded run: {error}") from error
        yield path.stem, run, read_reports(path.with_name(f"{path.stem}.reports.xz"))


def add() -> tuple[int, list[str]]:
    """Put every run that ships on the model board, once.

    A run that ships with other judgements since, as after an update of the site, is replaced. One that an operator has
    decided on stays as it is.

    A report that contradicts its run or its own calls is named and left out: its program counts as not judged yet.
    Given are how many runs were added, and those reports.
    """
    added, refused = 0, []
    for name, run, reports in shipped():
        if _stays(run, reports):
            continue
        refused += [f"{name}: {reason}" for reason in _add(run, reports)]
        added += 1
    return added, refused


def _stays(recorded: RecordedRun, reports: Mapping[str, EvaluationReport]) -> bool:
    """Whether the run is on this site with the judgements that ship, was judged here, or has an operator's decision."""
    run = Run.objects.filter(pk=uuid.UUID(recorded.id)).first()
    if run is None:
        return False
    if run.recorded_on is None or run.decisions.exists():
        return True
    rows = run.attempts.exclude(evaluation=None).values_list("evaluation", "evaluation__problem_revision")
    stored = {(str(pk), revision) for pk, revision in rows}
    # Most runs ship without a report that is refused. Only where these differ is every report computed again.
    return stored == _judgements(reports) or stored == _judgements(dict(_agreeing(recorded, reports, [])))


def _judgements(reports: Mapping[str, EvaluationReport]) -> set[tuple[str, str]]:
    return {(evaluation, report.revision) for evaluation, report in reports.items()}


@transaction.atomic
def _add(recorded: RecordedRun, reports: Mapping[str, EvaluationReport]) -> list[str]:
    """One run with everything, in place of an earlier one; returns why some of its reports were refused."""
    _delete(Run.objects.filter(pk=uuid.UUID(recorded.id)))
    refused: list[str] = []
    good = dict(_agreeing(recorded, reports, refused))
    ended = max((datetime.fromisoformat(report.finished_at) for report in good.values()), default=None)
    run = _run(recorded, ended=ended)
    for program in recorded.programs:
        report = good.get(program.evaluation)
        evaluation = _evaluation(run, recorded, program, report) if report is not None else None
        _attempt(run, program, evaluation)
    # Pages and feeds know by its newest event whether a run has changed.
    RunEvent.objects.create(run=run, kind=EventKind.RUN_PUBLISHED, at=run.published_at or run.created_at)
    return refused


def _agreeing(
    recorded: RecordedRun, reports: Mapping[str, EvaluationReport], refused: list[str]
) -> Iterator[tuple[str, EvaluationReport]]:
    for program in recorded.programs:
        if not program.evaluation:
            continue
        report = reports.get(program.evaluation)
        if fault := _fault(recorded, program, report):
            refused.append(f"{program.problem}: {fault}")
        elif report is not None:
            yield program.evaluation, report


def _fault(recorded: RecordedRun, program: RecordedProgram, report: EvaluationReport | None) -> str:
    """Why a report is not what its run says; empty where it is."""
    if report is None:
        return "its report is missing"
    expected = (program.problem, program.digest, program.backend, recorded.profile, Mode.RANKED)
    if (report.problem, report.source_digest, report.backend, report.profile, report.mode) != expected:
        return "the report is about another problem, source, backend, profile or mode"
    return "; ".join(recompute(report).differences[:3])


def _run(recorded: RecordedRun, *, ended: datetime | None) -> Run:
    declared = {name: getattr(recorded, name) for name in DECLARED}
    declaration = RunDeclaration(model=recorded.model, version=recorded.version, provider=recorded.provider, **declared)
    check_declaration(declaration)
    organisation, _ = Organisation.objects.get_or_create(slug=ORGANISATION, defaults={"name": "Recorded runs"})
    at = ended or datetime.fromisoformat(recorded.created_at)
    return Run.objects.create(
        pk=uuid.UUID(recorded.id),
        model=model_of(organisation, declaration),
        created_by=own_author(),
        **declared,
        notes="\n".join(filter(None, (recorded.published_by, recorded.notes))),
        state=RunState.PUBLISHED,
        verification=Verification.RECORDED,
        recorded_on=at.date(),
        recorded_where=hardware(recorded.profile),
        created_at=datetime.fromisoformat(recorded.created_at),
        published_at=at,
    )


def _evaluation(run: Run, recorded: RecordedRun, program: RecordedProgram, report: EvaluationReport) -> Evaluation:
    """The submission, evaluation and report of one program, its source known by digest alone."""
    bare = json.loads(SourceBundle(files=()).to_json())
    source, _ = Source.objects.get_or_create(digest=program.digest, defaults={"bundle": bare, "size_bytes": 0})
    submission = Submission.objects.create(
        author=run.created_by,
        problem=program.problem,
        source=source,
        backend=program.backend.value,
        visibility=Visibility.PUBLIC,
        is_attempt=True,
        published_by=recorded.published_by,
        created_at=datetime.fromisoformat(report.finished_at),
    )
    return store(report, submission)


def _attempt(run: Run, program: RecordedProgram, evaluation: Evaluation | None) -> Attempt:
    make = partial(
        Attempt.objects.create,
        run=run,
        key=f"{program.problem}/{program.sample}/{program.step}",
        problem=program.problem,
        sample=program.sample,
        step=program.step,
        mode=Mode.RANKED.value,
        backend=program.backend.value,
        source_digest=program.digest,
    )
    if evaluation is not None:
        return make(submission=evaluation.submission, **Attempt.result_of(evaluation))
    if program.verdict is None:
        return make(state=AttemptState.PENDING)
    return make(
        state=AttemptState.ENDED,
        verdict=program.verdict.value,
        message=program.message,
        ended_at=run.published_at or datetime.now(UTC),
    )


@transaction.atomic
def remove() -> int:
    """Take every recorded run away, with all that came with it; returns how many there were."""
    runs = Run.objects.filter(recorded_on__isnull=False)
    number = runs.count()
    for run in runs:
        run.decisions.all().delete()
    _delete(runs)
    organisation = Organisation.objects.filter(slug=ORGANISATION)
    for model in [model for one in organisation for model in one.models.filter(runs__isnull=True)]:
        model.delete()
    organisation.filter(models__isnull=True, memberships__isnull=True).delete()
    return number


def _delete(runs: QuerySet[Run]) -> None:
    """Delete runs without decisions, with their attempts, reports and sources; their models stay."""
    attempts = Attempt.objects.filter(run__in=runs)
    judged = list(attempts.exclude(evaluation=None).values_list("evaluation", flat=True))
    RunEvent.objects.filter(run__in=runs).delete()
    attempts.delete()
    runs.delete()
    delete(Evaluation.objects.filter(pk__in=judged))
