"""The tables of public data: each column described once, with how it is read, for every format."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from typing import Any

from django.db.models import Q, QuerySet

from portal.ranking.models import Standing
from portal.refusals import Refusal
from portal.runs import queries
from portal.runs.figures import Estimate
from portal.runs.models import Attempt, LanguageModel, Run, RunState
from portal.runs.queries import RunFigures
from portal.submissions.models import Evaluation, State, Visibility

CHUNK = 2000
_RUNS_AT_ONCE = 20
"""Runs whose figures are worked out together: as many as their attempts fit into memory."""

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
    """One column of a table; `read` takes its cell from one of the table's entries."""

    name: str
    kind: Kind
    meaning: str
    read: Callable[[Any], Cell]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its columns, and the entries that are its rows."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    entries: Callable[[], Iterable[Any]]

    def rows(self) -> Iterator[Row]:
        """Its rows, read as they are asked for."""
        for entry in self.entries():
            yield tuple(column.read(entry) for column in self.columns)


def _column(name: str, kind: Kind, meaning: str, read: str | Callable[[Any], Cell] = "") -> Column:
    """A column; `read` is a function or the path of an attribute, by default the one called `name`."""
    reads = attrgetter(read or name) if isinstance(read, str) else read
    return Column(name=name, kind=kind, meaning=meaning, read=reads)


def _id(path: str) -> Callable[[Any], Cell]:
    """The identifier at an attribute's path, as text."""
    read: Callable[[Any], uuid.UUID | None] = attrgetter(path)

    def as_text(entry: Any) -> str | None:
        value = read(entry)
        return None if value is None else str(value)

    return as_text


_SCORE = (
    _column("score", Kind.NUMBER, "median speedup over the reference, measured side by side"),
    _column("score_low", Kind.NUMBER, "lower end of its interval (about 96 %)"),
    _column("score_high", Kind.NUMBER, "upper end of its interval"),
)
_ATTEMPT_COLUMNS = (
    _column("run", Kind.TEXT, "id of the run", _id("run_id")),
    _column("key", Kind.TEXT, "the attempt's key in its run"),
    _column("problem", Kind.TEXT, "slug of the problem"),
    _column("sample", Kind.INTEGER, "which sample of the problem, from 0"),
    _column("step", Kind.INTEGER, "which step of the sample, from 0"),
    _column("mode", Kind.TEXT, "check, benchmark or ranked"),
    _column("state", Kind.TEXT, "pending or ended"),
    _column("verdict", Kind.TEXT, "one-word outcome", lambda attempt: attempt.verdict or None),
    *_SCORE,
    _column("message", Kind.TEXT, "the outcome in a sentence"),
    _column("tokens_in", Kind.INTEGER, "as declared"),
    _column("tokens_out", Kind.INTEGER, "as declared"),
    _column("cost_usd", Kind.NUMBER, "as declared"),
    _column("seconds", Kind.NUMBER, "how long the model took, as declared"),
    _column("source_digest", Kind.TEXT, "SHA-256 over names and contents of the source"),
    _column("submission", Kind.TEXT, "id of the submission, null where the text alone decided", _id("submission_id")),
    _column("evaluation", Kind.TEXT, "id of the evaluation shown", _id("evaluation_id")),
    _column("created_at", Kind.MOMENT, "when it was added"),
    _column("ended_at", Kind.MOMENT, "when its result was known"),
)


def attempts_of(run: Run) -> Table:
    """The attempts of one run as a table."""
    return Table(
        name=f"run-{run.pk}",
        meaning="The attempts of one run with their results.",
        columns=_ATTEMPT_COLUMNS,
        entries=lambda: _in_chunks(run.attempts.order_by("problem", "sample", "step")),
    )


def _in_chunks(rows: QuerySet[Any]) -> Iterator[Any]:
    return rows.iterator(chunk_size=CHUNK)


def _public_runs() -> QuerySet[Run]:
    return Run.objects.filter(state=RunState.PUBLISHED, is_quarantined=False)


def _attempts() -> Iterator[Attempt]:
    chosen = Attempt.objects.filter(run__in=_public_runs())
    return _in_chunks(chosen.order_by("run", "problem", "sample", "step"))


def _models() -> Iterator[LanguageModel]:
    chosen = LanguageModel.objects.filter(runs__in=_public_runs()).distinct().select_related("organisation")
    return _in_chunks(chosen.order_by("slug"))


@dataclass(frozen=True, kw_only=True)
class _RunEntry:
    run: Run
    figures: RunFigures
    fast_1_at_1: Estimate


def _runs() -> Iterator[_RunEntry]:
    chosen = _public_runs().select_related("model__organisation").order_by("published_at", "id")
    rows = _in_chunks(chosen)
    while runs := list(islice(rows, _RUNS_AT_ONCE)):
        figures = queries.figures_of(runs)
        for run in runs:
            yield _RunEntry(run=run, figures=figures[run.pk], fast_1_at_1=figures[run.pk].fast_at(1.0))


def _leaderboards() -> Iterator[Standing]:
    chosen = Standing.objects.filter(author__is_active=True).select_related("author", "evaluation__submission")
    return _in_chunks(chosen.order_by("problem", "profile", "backend", "-score_low", "submitted_at", "id"))


def _evaluations() -> Iterator[Evaluation]:
    public = Q(submission__visibility=Visibility.PUBLIC, submission__is_attempt=False)
    published = Q(submission__attempt__run__in=_public_runs())
    chosen = Evaluation.objects.filter(public | published, state=State.FINISHED)
    ordered = chosen.select_related("submission__author", "submission__source", "submission__attempt", "node")
    return _in_chunks(ordered.order_by("finished_at", "id"))


def _run_of(evaluation: Evaluation) -> str | None:
    submission = evaluation.submission
    return str(submission.attempt.run_id) if submission.is_attempt else None


def _author_of(evaluation: Evaluation) -> str | None:
    submission = evaluation.submission
    return None if submission.is_attempt else submission.author.username


_ESTIMATES = tuple(
    _column(f"{name}{suffix}", Kind.NUMBER, f"{meaning}{what}", f"{path}.{part}")
    for name, meaning, path in (
        ("correct_at_1", "correct@1", "figures.correct_at_1"),
        ("correct_at_k", "correct@k", "figures.correct_at_k"),
        ("fast_1_at_1", "fast_1@1", "fast_1_at_1"),
    )
    for suffix, what, part in (
        ("", "", "value"),
        ("_low", ", lower end of 95 %", "low"),
        ("_high", ", upper end of 95 %", "high"),
    )
)

TABLES = {
    table.name: table
    for table in (
        Table(
            name="leaderboards",
            meaning="People's standings: their best accepted evaluation per problem, revision, profile, backend.",
            columns=(
                _column("problem", Kind.TEXT, "slug of the problem"),
                _column("problem_revision", Kind.TEXT, "hash of what decides its judging"),
                _column("profile", Kind.TEXT, "hardware and world size"),
                _column("backend", Kind.TEXT, "what it is written in"),
                _column("author", Kind.TEXT, "public name", "author.username"),
                *_SCORE,
                _column("submitted_at", Kind.MOMENT, "when it was submitted"),
                _column("submission", Kind.TEXT, "id of the submission", _id("evaluation.submission_id")),
                _column("evaluation", Kind.TEXT, "id of the evaluation", _id("evaluation_id")),
                _column(
                    "is_source_public",
                    Kind.BOOLEAN,
                    "whether everybody may read it",
                    lambda standing: standing.evaluation.submission.visibility == Visibility.PUBLIC,
                ),
            ),
            entries=_leaderboards,
        ),
        Table(
            name="models",
            meaning="Models with a published run.",
            columns=(
                _column("model", Kind.TEXT, "short name", "slug"),
                _column("name", Kind.TEXT, "name"),
                _column("version", Kind.TEXT, "version"),
                _column("provider", Kind.TEXT, "as declared"),
                _column("organisation", Kind.TEXT, "short name of the organisation", "organisation.slug"),
            ),
            entries=_models,
        ),
        Table(
            name="runs",
            meaning="Published runs of models with their figures over all problems.",
            columns=(
                _column("run", Kind.TEXT, "id of the run", _id("run.pk")),
                _column("model", Kind.TEXT, "short name of the model", "run.model.slug"),
                _column("organisation", Kind.TEXT, "short name of the organisation", "run.model.organisation.slug"),
                _column("mode", Kind.TEXT, "single_shot, best_of_k or agentic", "run.mode"),
                _column("backend", Kind.TEXT, "what its attempts are written in", "run.backend"),
                _column("profile", Kind.TEXT, "where they were judged", "run.profile"),
                _column("k", Kind.INTEGER, "declared samples per problem", "run.k"),
                _column("prompt_version", Kind.TEXT, "as declared", "run.prompt_version"),
                _column("verification", Kind.TEXT, "self_reported, re_run or audited", "run.verification"),
                _column("published_at", Kind.MOMENT, "when it was published", "run.published_at"),
                _column("problems", Kind.INTEGER, "problems that the figures are over", "figures.problems"),
                _column("attempted", Kind.INTEGER, "problems with an attempt", "figures.attempted"),
                _column("supported", Kind.INTEGER, "problems that the profile can judge", "figures.supported"),
                _column("solved", Kind.INTEGER, "problems with a sample that passed", "figures.solved"),
                _column("faster", Kind.INTEGER, "of these, with one faster than the reference", "figures.faster"),
                *_ESTIMATES,
                _column(
                    "geomean_speedup",
                    Kind.NUMBER,
                    "over solved problems, best sample each",
                    "figures.geomean_speedup",
                ),
                _column("cost_usd", Kind.NUMBER, "sum over attempts, or as declared for the run", "figures.cost_usd"),
                _column("tokens", Kind.INTEGER, "sum over attempts", "figures.tokens"),
            ),
            entries=_runs,
        ),
        Table(
            name="attempts",
            meaning="The attempts of published runs with their results.",
            columns=_ATTEMPT_COLUMNS,
            entries=_attempts,
        ),
        Table(
            name="evaluations",
            meaning="Finished evaluations of public submissions and of published runs.",
            columns=(
                _column("evaluation", Kind.TEXT, "id of the evaluation", _id("pk")),
                _column("submission", Kind.TEXT, "id of the submission", _id("submission_id")),
                _column("run", Kind.TEXT, "id of the run that it belongs to, or null", _run_of),
                _column("author", Kind.TEXT, "public name of the author, null for attempts of runs", _author_of),
                _column("problem", Kind.TEXT, "slug of the problem", "submission.problem"),
                _column("problem_revision", Kind.TEXT, "hash of what decides its judging"),
                _column("backend", Kind.TEXT, "what it is written in", "submission.backend"),
                _column("profile", Kind.TEXT, "where it was judged"),
                _column("mode", Kind.TEXT, "check, benchmark or ranked"),
                _column("verdict", Kind.TEXT, "one-word outcome"),
                *_SCORE,
                _column("message", Kind.TEXT, "the outcome in a sentence"),
                _column(
                    "source_digest",
                    Kind.TEXT,
                    "SHA-256 over names and contents of the source",
                    "submission.source.digest",
                ),
                _column(
                    "node",
                    Kind.TEXT,
                    "the machine that judged it",
                    lambda evaluation: evaluation.node.name if evaluation.node else None,
                ),
                _column("queued_at", Kind.MOMENT, "when it was queued"),
                _column("started_at", Kind.MOMENT, "when a node took it"),
                _column("finished_at", Kind.MOMENT, "when it ended"),
            ),
            entries=_evaluations,
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
