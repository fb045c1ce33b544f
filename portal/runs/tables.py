"""The tables of public data: their columns, described once for every format, and their rows."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db.models import Q, QuerySet

from portal.ranking.models import Standing
from portal.refusals import Refusal
from portal.runs import queries
from portal.runs.models import Attempt, LanguageModel, Run, RunState
from portal.submissions.models import Evaluation, State, Visibility

CHUNK = 2000

Cell = str | int | float | bool | datetime | None
Row = tuple[Cell, ...]


class Kind(StrEnum):
    """What a column holds; each may be null."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    MOMENT = "moment"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its columns and how to read its rows."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    rows: Callable[[], Iterator[Row]]


def _columns(*described: tuple[str, Kind, str]) -> tuple[Column, ...]:
    return tuple(Column(name=name, kind=kind, meaning=meaning) for name, kind, meaning in described)


_SCORE = (
    ("score", Kind.NUMBER, "median speedup over the reference, measured side by side"),
    ("score_low", Kind.NUMBER, "lower end of its interval (about 96 %)"),
    ("score_high", Kind.NUMBER, "upper end of its interval"),
)
_ATTEMPT_COLUMNS = _columns(
    ("run", Kind.TEXT, "id of the run"),
    ("key", Kind.TEXT, "the attempt's key in its run"),
    ("problem", Kind.TEXT, "slug of the problem"),
    ("sample", Kind.INTEGER, "which sample of the problem, from 0"),
    ("step", Kind.INTEGER, "which step of the sample, from 0"),
    ("mode", Kind.TEXT, "check, benchmark or ranked"),
    ("state", Kind.TEXT, "pending or ended"),
    ("verdict", Kind.TEXT, "one-word outcome"),
    *_SCORE,
    ("message", Kind.TEXT, "the outcome in a sentence"),
    ("tokens_in", Kind.INTEGER, "as declared"),
    ("tokens_out", Kind.INTEGER, "as declared"),
    ("cost_usd", Kind.NUMBER, "as declared"),
    ("seconds", Kind.NUMBER, "how long the model took, as declared"),
    ("source_digest", Kind.TEXT, "SHA-256 over names and contents of the source"),
    ("submission", Kind.TEXT, "id of the submission, null where the text alone decided"),
    ("evaluation", Kind.TEXT, "id of the evaluation shown"),
    ("created_at", Kind.MOMENT, "when it was added"),
    ("ended_at", Kind.MOMENT, "when its result was known"),
)


def attempt_rows(attempts: QuerySet[Attempt]) -> Iterator[Row]:
    """Attempts as rows of the table of attempts."""
    for row in attempts.iterator(chunk_size=CHUNK):
        yield (
            str(row.run_id),
            row.key,
            row.problem,
            row.sample,
            row.step,
            row.mode,
            row.state,
            row.verdict or None,
            row.score,
            row.score_low,
            row.score_high,
            row.message,
            row.tokens_in,
            row.tokens_out,
            row.cost_usd,
            row.seconds,
            row.source_digest,
            _text(row.submission_id),
            _text(row.evaluation_id),
            row.created_at,
            row.ended_at,
        )


def attempts_of(run: Run) -> Table:
    """The attempts of one run as a table."""
    chosen = run.attempts.order_by("problem", "sample", "step")
    return Table(
        name=f"run-{run.pk}",
        meaning="The attempts of one run with their results.",
        columns=_ATTEMPT_COLUMNS,
        rows=lambda: attempt_rows(chosen),
    )


def _public_runs() -> QuerySet[Run]:
    return Run.objects.filter(state=RunState.PUBLISHED, is_quarantined=False)


def _attempts() -> Iterator[Row]:
    chosen = Attempt.objects.filter(run__in=_public_runs())
    return attempt_rows(chosen.order_by("run", "problem", "sample", "step"))


def _models() -> Iterator[Row]:
    chosen = LanguageModel.objects.filter(runs__in=_public_runs()).distinct().select_related("organisation")
    for model in chosen.order_by("slug"):
        yield (model.slug, model.name, model.version, model.provider, model.organisation.slug)


def _runs() -> Iterator[Row]:
    chosen = list(_public_runs().select_related("model__organisation").order_by("published_at", "id"))
    figures = queries.figures_of(chosen)
    for run in chosen:
        found = figures[run.pk]
        fast = found.fast_at(1.0)
        yield (
            str(run.pk),
            run.model.slug,
            run.model.organisation.slug,
            run.mode,
            run.backend,
            run.profile,
            run.k,
            run.prompt_version,
            run.verification,
            run.published_at,
            found.problems,
            found.attempted,
            found.supported,
            found.solved,
            found.faster,
            found.correct_at_1.value,
            found.correct_at_1.low,
            found.correct_at_1.high,
            found.correct_at_k.value,
            found.correct_at_k.low,
            found.correct_at_k.high,
            fast.value,
            fast.low,
            fast.high,
            found.geomean_speedup,
            found.cost_usd,
            found.tokens,
        )


def _leaderboards() -> Iterator[Row]:
    chosen = Standing.objects.filter(author__is_active=True).select_related("author", "evaluation__submission")
    ordered = chosen.order_by("problem", "profile", "backend", "-score_low", "submitted_at", "id")
    for row in ordered.iterator(chunk_size=CHUNK):
        submission = row.evaluation.submission
        yield (
            row.problem,
            row.problem_revision,
            row.profile,
            row.backend,
            row.author.username,
            row.score,
            row.score_low,
            row.score_high,
            row.submitted_at,
            str(submission.pk),
            str(row.evaluation_id),
            submission.visibility == Visibility.PUBLIC,
        )


def _evaluations() -> Iterator[Row]:
    public = Q(submission__visibility=Visibility.PUBLIC, submission__is_attempt=False)
    published = Q(submission__attempt__run__in=_public_runs())
    chosen = Evaluation.objects.filter(public | published, state=State.FINISHED)
    ordered = chosen.select_related("submission__author", "submission__source", "submission__attempt", "node")
    for row in ordered.order_by("finished_at", "id").iterator(chunk_size=CHUNK):
        submission = row.submission
        yield (
            str(row.pk),
            str(submission.pk),
            str(submission.attempt.run_id) if submission.is_attempt else None,
            None if submission.is_attempt else submission.author.username,
            submission.problem,
            row.problem_revision,
            submission.backend,
            row.profile,
            row.mode,
            row.verdict,
            row.score,
            row.score_low,
            row.score_high,
            row.message,
            submission.source.digest,
            row.node.name if row.node else None,
            row.queued_at,
            row.started_at,
            row.finished_at,
        )


_ESTIMATES = tuple(
    (f"{name}{end}", Kind.NUMBER, f"{meaning}{what}")
    for name, meaning in (("correct_at_1", "correct@1"), ("correct_at_k", "correct@k"), ("fast_1_at_1", "fast_1@1"))
    for end, what in (("", ""), ("_low", ", lower end of 95 %"), ("_high", ", upper end of 95 %"))
)

TABLES = {
    table.name: table
    for table in (
        Table(
            name="leaderboards",
            meaning="People's standings: their best accepted evaluation per problem, revision, profile, backend.",
            columns=_columns(
                ("problem", Kind.TEXT, "slug of the problem"),
                ("problem_revision", Kind.TEXT, "hash of what decides its judging"),
                ("profile", Kind.TEXT, "hardware and world size"),
                ("backend", Kind.TEXT, "what it is written in"),
                ("author", Kind.TEXT, "public name"),
                *_SCORE,
                ("submitted_at", Kind.MOMENT, "when it was submitted"),
                ("submission", Kind.TEXT, "id of the submission"),
                ("evaluation", Kind.TEXT, "id of the evaluation"),
                ("is_source_public", Kind.BOOLEAN, "whether everybody may read it"),
            ),
            rows=_leaderboards,
        ),
        Table(
            name="models",
            meaning="Models with a published run.",
            columns=_columns(
                ("model", Kind.TEXT, "short name"),
                ("name", Kind.TEXT, "name"),
                ("version", Kind.TEXT, "version"),
                ("provider", Kind.TEXT, "as declared"),
                ("organisation", Kind.TEXT, "short name of the organisation"),
            ),
            rows=_models,
        ),
        Table(
            name="runs",
            meaning="Published runs of models with their figures over all problems.",
            columns=_columns(
                ("run", Kind.TEXT, "id of the run"),
                ("model", Kind.TEXT, "short name of the model"),
                ("organisation", Kind.TEXT, "short name of the organisation"),
                ("mode", Kind.TEXT, "single_shot, best_of_k or agentic"),
                ("backend", Kind.TEXT, "what its attempts are written in"),
                ("profile", Kind.TEXT, "where they were judged"),
                ("k", Kind.INTEGER, "declared samples per problem"),
                ("prompt_version", Kind.TEXT, "as declared"),
                ("verification", Kind.TEXT, "self_reported, re_run or audited"),
                ("published_at", Kind.MOMENT, "when it was published"),
                ("problems", Kind.INTEGER, "problems that the figures are over"),
                ("attempted", Kind.INTEGER, "problems with an attempt"),
                ("supported", Kind.INTEGER, "problems that the profile can judge"),
                ("solved", Kind.INTEGER, "problems with a sample that passed"),
                ("faster", Kind.INTEGER, "of these, with one faster than the reference"),
                *_ESTIMATES,
                ("geomean_speedup", Kind.NUMBER, "over solved problems, best sample each"),
                ("cost_usd", Kind.NUMBER, "sum over attempts, or as declared for the run"),
                ("tokens", Kind.INTEGER, "sum over attempts"),
            ),
            rows=_runs,
        ),
        Table(
            name="attempts",
            meaning="The attempts of published runs with their results.",
            columns=_ATTEMPT_COLUMNS,
            rows=_attempts,
        ),
        Table(
            name="evaluations",
            meaning="Finished evaluations of public submissions and of published runs.",
            columns=_columns(
                ("evaluation", Kind.TEXT, "id of the evaluation"),
                ("submission", Kind.TEXT, "id of the submission"),
                ("run", Kind.TEXT, "id of the run that it belongs to, or null"),
                ("author", Kind.TEXT, "public name of the author, null for attempts of runs"),
                ("problem", Kind.TEXT, "slug of the problem"),
                ("problem_revision", Kind.TEXT, "hash of what decides its judging"),
                ("backend", Kind.TEXT, "what it is written in"),
                ("profile", Kind.TEXT, "where it was judged"),
                ("mode", Kind.TEXT, "check, benchmark or ranked"),
                ("verdict", Kind.TEXT, "one-word outcome"),
                *_SCORE,
                ("message", Kind.TEXT, "the outcome in a sentence"),
                ("source_digest", Kind.TEXT, "SHA-256 over names and contents of the source"),
                ("node", Kind.TEXT, "the machine that judged it"),
                ("queued_at", Kind.MOMENT, "when it was queued"),
                ("started_at", Kind.MOMENT, "when a node took it"),
                ("finished_at", Kind.MOMENT, "when it ended"),
            ),
            rows=_evaluations,
        ),
    )
}


def get_table(name: str) -> Table:
    """The table called `name`; raises Refusal (404)."""
    if name not in TABLES:
        raise Refusal(
            field="table",
            value=name,
            message="There is no such table.",
            remedy=f"Known are {', '.join(TABLES)}.",
            status=404,
        )
    return TABLES[name]


def schema() -> dict[str, Any]:
    """Every table and column in words, as the data set carries it."""
    return {
        table.name: {
            "meaning": table.meaning,
            "columns": [
                {"name": column.name, "type": column.kind.value, "meaning": column.meaning} for column in table.columns
            ],
        }
        for table in TABLES.values()
    }


def _text(value: uuid.UUID | None) -> str | None:
    return str(value) if value is not None else None
