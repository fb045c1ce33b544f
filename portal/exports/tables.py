"""The tables of public data, and that of one run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import islice
from operator import attrgetter
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery

from portal.core.errors import Refusal
from portal.ranking.models import Standing
from portal.runs import queries
from portal.runs.figures import Estimate
from portal.runs.models import Attempt, LanguageModel, Run, RunState
from portal.runs.queries import RunFigures
from portal.submissions.models import Evaluation, State, Visibility
from portal.submissions.queries import quarantined
from portal.tabular.tables import Kind, Table, column, identifier

CHUNK = 2000
_RUNS_AT_ONCE = 20
"""Runs whose figures are worked out together: as many as their attempts fit into memory."""

_SCORE = (
    column("score", Kind.NUMBER, "speedup over the reference, measured side by side"),
    column("score_low", Kind.NUMBER, "lower end of its interval (95 %; by rule 1 about 96 %)"),
    column("score_high", Kind.NUMBER, "upper end of its interval"),
)
_RULE = "timing rule of the score; scores of different rules are not comparable"
_ATTEMPT_COLUMNS = (
    column("run", Kind.TEXT, "id of the run", identifier("run_id")),
    column("key", Kind.TEXT, "the attempt's key in its run"),
    column("problem", Kind.TEXT, "slug of the problem"),
    column("sample", Kind.INTEGER, "which sample of the problem, from 0"),
    column("step", Kind.INTEGER, "which step of the sample, from 0"),
    column("mode", Kind.TEXT, "check, profile, benchmark or ranked"),
    column("backend", Kind.TEXT, "what it is judged as, which may differ from the run's backend"),
    column("state", Kind.TEXT, "pending or ended"),
    column("verdict", Kind.TEXT, "one-word outcome", lambda attempt: attempt.verdict or None),
    *_SCORE,
    column(
        "score_rule",
        Kind.INTEGER,
        _RULE,
        lambda attempt: attempt.evaluation.score_rule if attempt.evaluation is not None else None,
    ),
    column("message", Kind.TEXT, "the outcome in a sentence"),
    column("tokens_in", Kind.INTEGER, "as declared"),
    column("tokens_out", Kind.INTEGER, "as declared"),
    column("cost_usd", Kind.NUMBER, "as declared"),
    column("seconds", Kind.NUMBER, "how long the model took, as declared"),
    column("source_digest", Kind.TEXT, "SHA-256 over names and contents of the source"),
    column(
        "submission", Kind.TEXT, "id of the submission; null if the text alone decided", identifier("submission_id")
    ),
    column("evaluation", Kind.TEXT, "id of the evaluation shown", identifier("evaluation_id")),
    column("created_at", Kind.MOMENT, "when it was added"),
    column("ended_at", Kind.MOMENT, "when its result was known"),
)


def attempts_of(run: Run) -> Table:
    """The attempts of one run as a table."""
    return Table(
        name=f"run-{run.pk}",
        meaning="The attempts of one run with their results.",
        columns=_ATTEMPT_COLUMNS,
        entries=lambda: _in_chunks(run.attempts.select_related("evaluation").order_by("problem", "sample", "step")),
    )


def _in_chunks(rows: QuerySet[Any]) -> Iterator[Any]:
    return rows.iterator(chunk_size=CHUNK)


def _public_runs() -> QuerySet[Run]:
    return Run.objects.filter(state=RunState.PUBLISHED, is_quarantined=False)


def _attempts() -> Iterator[Attempt]:
    chosen = Attempt.objects.filter(run__in=_public_runs()).select_related("evaluation")
    return _in_chunks(chosen.order_by("run", "problem", "sample", "step"))


def _models() -> Iterator[LanguageModel]:
    chosen = LanguageModel.objects.filter(runs__in=_public_runs()).distinct().select_related("organisation")
    return _in_chunks(chosen.order_by("slug"))


@dataclass(frozen=True, kw_only=True)
class _RunEntry:
    run: Run
    figures: RunFigures
    fast_1_at_1: Estimate | None


def _runs() -> Iterator[_RunEntry]:
    chosen = _public_runs().select_related("model__organisation").order_by("published_at", "id")
    rows = _in_chunks(chosen)
    while runs := list(islice(rows, _RUNS_AT_ONCE)):
        figures = queries.figures_of(runs)
        for run in runs:
            yield _RunEntry(run=run, figures=figures[run.pk], fast_1_at_1=figures[run.pk].fast_at(1.0))


def _leaderboards() -> Iterator[Standing]:
    chosen = Standing.objects.filter(author__is_active=True).select_related("author", "evaluation__submission")
    chosen = chosen.only(*_READ_OF_STANDINGS)
    return _in_chunks(
        chosen.order_by("problem", "profile", "backend", "-score_rule", "-score_low", "submitted_at", "id")
    )


def _evaluations() -> Iterator[Evaluation]:
    public = Q(submission__visibility=Visibility.PUBLIC, submission__is_attempt=False)
    published = Q(submission__attempt__run__in=_public_runs())
    chosen = Evaluation.objects.filter(public | published, state=State.FINISHED)
    reason = quarantined().filter(submission=OuterRef("submission")).values("reason")
    chosen = chosen.annotate(quarantine_reason=Subquery(reason[:1]))
    related = chosen.select_related(
        "submission__author", "submission__source", "submission__attempt", "node", "node_owner"
    )
    # What no column shows is not read: a chunk of sources alone could have a gigabyte.
    return _in_chunks(related.only(*_READ_OF_EVALUATIONS).order_by("finished_at", "id"))


_READ_OF_STANDINGS = (
    "problem", "problem_revision", "profile", "backend", "score", "score_low", "score_high", "score_rule",
    "submitted_at", "author__username", "evaluation__recorded_on", "evaluation__submission__visibility",
)  # fmt: skip
_READ_OF_EVALUATIONS = (
    "problem_revision", "profile", "mode", "verdict", "score", "score_low", "score_high", "score_rule", "message",
    "recorded_on", "queued_at", "started_at", "finished_at", "node__name", "node_owner__slug",
    "submission__problem", "submission__backend", "submission__is_attempt", "submission__author__username",
    "submission__source__digest", "submission__attempt__run",
)  # fmt: skip


def _date(day: date | None) -> str | None:
    return day.isoformat() if day is not None else None


def _run_of(evaluation: Evaluation) -> str | None:
    submission = evaluation.submission
    return str(submission.attempt.run_id) if submission.is_attempt else None


def _author_of(evaluation: Evaluation) -> str | None:
    submission = evaluation.submission
    return None if submission.is_attempt else submission.author.username


def _part(path: str, part: str) -> Callable[[_RunEntry], float | None]:
    """Reads one number of the estimate at `path`, which a run that is not complete does not have."""
    read: Callable[[_RunEntry], Estimate | None] = attrgetter(path)
    return lambda entry: None if (found := read(entry)) is None else getattr(found, part)


_ESTIMATES = tuple(
    column(f"{name}{suffix}", Kind.NUMBER, f"{meaning}{what}; null until all is judged", _part(path, part))
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
            meaning="People's standings: their best accepted evaluation per problem, revision, profile, backend, rule.",
            columns=(
                column("problem", Kind.TEXT, "slug of the problem"),
                column("problem_revision", Kind.TEXT, "hash over everything that affects an evaluation"),
                column("profile", Kind.TEXT, "hardware and world size"),
                column("backend", Kind.TEXT, "what it is written in"),
                column("author", Kind.TEXT, "public name", "author.username"),
                *_SCORE,
                column("score_rule", Kind.INTEGER, _RULE),
                column("submitted_at", Kind.MOMENT, "when it was submitted"),
                column(
                    "recorded_on",
                    Kind.TEXT,
                    "date, if it was judged elsewhere; null if this site judged it",
                    lambda standing: _date(standing.evaluation.recorded_on),
                ),
                column("submission", Kind.TEXT, "id of the submission", identifier("evaluation.submission_id")),
                column("evaluation", Kind.TEXT, "id of the evaluation", identifier("evaluation_id")),
                column(
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
                column("model", Kind.TEXT, "short name", "slug"),
                column("name", Kind.TEXT, "name"),
                column("version", Kind.TEXT, "version"),
                column("provider", Kind.TEXT, "as declared"),
                column("organisation", Kind.TEXT, "short name of the organisation", "organisation.slug"),
            ),
            entries=_models,
        ),
        Table(
            name="runs",
            meaning="Published runs of models with their figures over all problems.",
            columns=(
                column("run", Kind.TEXT, "id of the run", identifier("run.pk")),
                column("model", Kind.TEXT, "short name of the model", "run.model.slug"),
                column("organisation", Kind.TEXT, "short name of the organisation", "run.model.organisation.slug"),
                column("mode", Kind.TEXT, "single_shot, best_of_k or agentic", "run.mode"),
                column("backend", Kind.TEXT, "what the model was asked for", "run.backend"),
                column("profile", Kind.TEXT, "where they were judged", "run.profile"),
                column("k", Kind.INTEGER, "declared samples per problem", "run.k"),
                column("prompt_version", Kind.TEXT, "as declared", "run.prompt_version"),
                column("verification", Kind.TEXT, "self_reported, re_run or audited", "run.verification"),
                column("published_at", Kind.MOMENT, "when it was published", "run.published_at"),
                column(
                    "recorded_on",
                    Kind.TEXT,
                    "the last date, if it was judged elsewhere; null if this site judged it",
                    lambda entry: _date(entry.run.recorded_on),
                ),
                column("problems", Kind.INTEGER, "number of problems in the figures", "figures.problems"),
                column("attempted", Kind.INTEGER, "problems with an attempt", "figures.attempted"),
                column("measured", Kind.INTEGER, "problems in the estimates", "figures.measured"),
                column("programs", Kind.INTEGER, "samples with a verdict or waiting for one", "figures.programs"),
                column("judged", Kind.INTEGER, "samples with a verdict", "figures.judged"),
                column("solved", Kind.INTEGER, "problems with a sample that passed", "figures.solved"),
                column(
                    "faster",
                    Kind.INTEGER,
                    "of these, problems with a sample whose whole interval is above 1",
                    "figures.faster",
                ),
                *_ESTIMATES,
                column(
                    "correct_least", Kind.NUMBER, "lower bound of correct@1 over all problems", "figures.bounds.low"
                ),
                column(
                    "correct_most", Kind.NUMBER, "upper bound of correct@1 over all problems", "figures.bounds.high"
                ),
                column(
                    "geomean_speedup",
                    Kind.NUMBER,
                    "over solved problems, best sample each",
                    "figures.geomean_speedup",
                ),
                column("score_rule", Kind.INTEGER, f"of its speedups: {_RULE}", "figures.score_rule"),
                column("cost_usd", Kind.NUMBER, "sum over attempts, or as declared for the run", "figures.cost_usd"),
                column("tokens", Kind.INTEGER, "sum over attempts", "figures.tokens"),
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
                column("evaluation", Kind.TEXT, "id of the evaluation", identifier("pk")),
                column("submission", Kind.TEXT, "id of the submission", identifier("submission_id")),
                column("run", Kind.TEXT, "id of the run that it belongs to, or null", _run_of),
                column("author", Kind.TEXT, "public name of the author, null for attempts of runs", _author_of),
                column("problem", Kind.TEXT, "slug of the problem", "submission.problem"),
                column("problem_revision", Kind.TEXT, "hash over everything that affects an evaluation"),
                column("backend", Kind.TEXT, "what it is written in", "submission.backend"),
                column("profile", Kind.TEXT, "where it was judged"),
                column("mode", Kind.TEXT, "check, profile, benchmark or ranked"),
                column("verdict", Kind.TEXT, "one-word outcome"),
                *_SCORE,
                column("score_rule", Kind.INTEGER, _RULE),
                column("message", Kind.TEXT, "the outcome in a sentence"),
                column(
                    "source_digest",
                    Kind.TEXT,
                    "SHA-256 over names and contents of the source",
                    "submission.source.digest",
                ),
                column(
                    "node",
                    Kind.TEXT,
                    "the machine that judged it",
                    lambda evaluation: evaluation.node.name if evaluation.node else None,
                ),
                column(
                    "node_owner",
                    Kind.TEXT,
                    (
                        "the organisation that owns this guest node and is responsible for the result; null for "
                        "this site's own nodes"
                    ),
                    lambda evaluation: evaluation.node_owner.slug if evaluation.node_owner else None,
                ),
                column(
                    "recorded_on",
                    Kind.TEXT,
                    "date, if it was judged elsewhere; null if this site judged it",
                    lambda evaluation: _date(evaluation.recorded_on),
                ),
                column(
                    "quarantine_reason", Kind.TEXT, "why operators removed it from the boards; null if they did not"
                ),
                column("queued_at", Kind.MOMENT, "when it was queued"),
                column("started_at", Kind.MOMENT, "when a node took it"),
                column("finished_at", Kind.MOMENT, "when it ended"),
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
            remedy=f"Choose one of {', '.join(TABLES)}.",
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
