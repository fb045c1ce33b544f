"""The tables of public data, and that of one run."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from django.db.models import BooleanField, Case, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import NullIf
from django.utils import timezone

from portal.core.errors import NotFound
from portal.ranking.models import Standing
from portal.runs import queries
from portal.runs.models import Attempt, LanguageModel, Run
from portal.seasons.queries import public_entries
from portal.submissions.models import Evaluation, State, Visibility
from portal.submissions.queries import quarantined
from portal.tabular.tables import CHUNK, Table, boolean, integer, moment, number, text

_RUNS_AT_ONCE = 20
"""Runs whose figures are worked out together: as many as their attempts fit into memory."""

_SCORE = (
    number("score", "speedup over the reference, measured side by side"),
    number("score_low", "lower end of its interval (95 %; by rule 1 about 96 %)"),
    number("score_high", "upper end of its interval"),
)
_RULE = "timing rule of the score; scores of different rules are not comparable"
_RECORDED = "date, if it was judged elsewhere; null if this site judged it"
_GUEST = "the organisation that owns this guest node and is responsible for the result; null for this site's own nodes"
_ATTEMPT_COLUMNS = (
    text("run", "id of the run", "run_id"),
    text("key", "the attempt's key in its run"),
    text("problem", "slug of the problem"),
    integer("sample", "which sample of the problem, from 0"),
    integer("step", "which step of the sample, from 0"),
    text("mode", "check, profile, benchmark or ranked"),
    text("backend", "what it is judged as, which may differ from the run's backend"),
    text("state", "pending or ended"),
    text("verdict", "one-word outcome", "known_verdict"),
    *_SCORE,
    integer("score_rule", _RULE, "evaluation.score_rule"),
    text("message", "the outcome in a sentence"),
    integer("tokens_in", "as declared"),
    integer("tokens_out", "as declared"),
    number("cost_usd", "as declared"),
    number("seconds", "how long the model took, as declared"),
    text("source_digest", "SHA-256 over names and contents of the source"),
    text("submission", "id of the submission; null if the text alone decided", "submission_id"),
    text("evaluation", "id of the evaluation shown", "evaluation_id"),
    moment("created_at", "when it was added"),
    moment("ended_at", "when its result was known"),
)


_PLACE = ("problem", "sample", "step")


def attempts_of(run: Run) -> Table:
    return Table(
        name=f"run-{run.pk}",
        meaning="The attempts of one run with their results.",
        columns=_ATTEMPT_COLUMNS,
        entries=lambda: _attempts(run.attempts.order_by(*_PLACE)),
    )


def _attempts(chosen: QuerySet[Attempt]) -> QuerySet[Attempt]:
    return chosen.annotate(known_verdict=NullIf("verdict", Value("")))


def _runs() -> Iterator[dict[str, Any]]:
    rows = queries.board_runs().order_by("published_at", "id").iterator(chunk_size=CHUNK)
    while runs := list(islice(rows, _RUNS_AT_ONCE)):
        figures = queries.figures_of(runs)
        for run in runs:
            found = figures[run.pk]
            fast = {"fast_1_at_1": found.fast_at(1.0), "fast_1_by_point": found.fast_at(1.0, by_point=True)}
            yield {"run": run, "figures": found, **fast}


def _leaderboards() -> QuerySet[Standing]:
    is_public = Q(evaluation__submission__visibility=Visibility.PUBLIC)
    chosen = Standing.objects.filter(author__is_active=True, score_low__gt=0)  # without what was not timed
    chosen = chosen.annotate(is_source_public=ExpressionWrapper(is_public, output_field=BooleanField()))
    return chosen.order_by("problem", "profile", "backend", "-score_rule", "-score_low", "submitted_at", "id")


def _evaluations() -> QuerySet[Evaluation]:
    public = Q(submission__visibility=Visibility.PUBLIC, submission__is_attempt=False)
    published = Q(submission__attempt__run__in=queries.board_runs())
    chosen = Evaluation.objects.filter(public | published, state=State.FINISHED)
    reason = quarantined().filter(submission=OuterRef("submission")).values("reason")
    return chosen.annotate(
        quarantine_reason=Subquery(reason[:1]),
        built_on=Case(When(submission__built_on__visibility=Visibility.PUBLIC, then="submission__built_on")),
        author=Case(When(submission__is_attempt=False, then="submission__author__username")),
    ).order_by("finished_at", "id")


_ESTIMATES = tuple(
    number(f"{name}{suffix}", f"{meaning}{what}; null until all is judged", f"{path}.{part}")
    for name, meaning, path in (
        ("correct_at_1", "correct@1", "figures.correct_at_1"),
        ("correct_at_k", "correct@k", "figures.correct_at_k"),
        ("best_of_k", "best of k, published as pass@k", "figures.best_of_k"),
        ("fast_1_at_1", "fast_1@1", "fast_1_at_1"),
        ("fast_1_by_point", "fast_1@1 by point estimates, as published", "fast_1_by_point"),
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
                text("problem", "slug of the problem"),
                text("problem_revision", "hash over everything that affects an evaluation"),
                text("profile", "hardware and world size"),
                text("backend", "what it is written in"),
                text("author", "public name", "author.username"),
                *_SCORE,
                integer("score_rule", _RULE),
                moment("submitted_at", "when it was submitted"),
                text("recorded_on", _RECORDED, "evaluation.recorded_on"),
                text("submission", "id of the submission", "evaluation.submission_id"),
                text("evaluation", "id of the evaluation", "evaluation_id"),
                boolean("is_source_public", "whether everybody may read it"),
            ),
            entries=_leaderboards,
        ),
        Table(
            name="models",
            meaning="Models with a published run.",
            columns=(
                text("model", "short name", "slug"),
                text("name", "name"),
                text("version", "version"),
                text("provider", "as declared"),
                text("organisation", "short name of the organisation", "organisation.slug"),
            ),
            entries=lambda: LanguageModel.objects.filter(runs__in=queries.board_runs()).distinct().order_by("slug"),
        ),
        Table(
            name="runs",
            meaning="Published runs of models with their figures over all problems.",
            columns=(
                text("run", "id of the run", "run.pk"),
                text("model", "short name of the model", "run.model.slug"),
                text("organisation", "short name of the organisation", "run.model.organisation.slug"),
                text("mode", "single_shot, best_of_k or agentic", "run.mode"),
                text("backend", "what the model was asked for", "run.backend"),
                text("profile", "where they were judged", "run.profile"),
                integer("k", "declared samples per problem", "run.k"),
                text("prompt_version", "as declared", "run.prompt_version"),
                text("verification", "judged_here, recorded (elsewhere), re_run or audited", "run.verification"),
                moment("published_at", "when it was published", "run.published_at"),
                text("recorded_on", f"the last {_RECORDED}", "run.recorded_on"),
                integer("problems", "number of problems in the figures", "figures.problems"),
                integer("attempted", "problems with an attempt", "figures.attempted"),
                integer("measured", "problems in the estimates", "figures.measured"),
                integer("programs", "samples with a verdict or waiting for one", "figures.programs"),
                integer("judged", "samples with a verdict", "figures.judged"),
                integer("solved", "problems with a sample that passed", "figures.solved"),
                integer("faster", "of these, problems with a sample whose whole interval is above 1", "figures.faster"),
                *_ESTIMATES,
                number("correct_least", "lower bound of correct@1 over all problems", "figures.bounds.low"),
                number("correct_most", "upper bound of correct@1 over all problems", "figures.bounds.high"),
                number("geomean_speedup", "over solved problems, best sample each", "figures.geomean_speedup"),
                integer("score_rule", f"of its speedups: {_RULE}", "figures.score_rule"),
                number("cost_usd", "sum over attempts, or as declared for the run", "figures.cost_usd"),
                integer("tokens", "sum over attempts", "figures.tokens"),
            ),
            entries=_runs,
        ),
        Table(
            name="attempts",
            meaning="The attempts of published runs with their results.",
            columns=_ATTEMPT_COLUMNS,
            entries=lambda: _attempts(Attempt.objects.filter(run__in=queries.board_runs()).order_by("run", *_PLACE)),
        ),
        Table(
            name="evaluations",
            meaning="Finished evaluations of public submissions and of published runs.",
            columns=(
                text("evaluation", "id of the evaluation", "pk"),
                text("submission", "id of the submission", "submission_id"),
                text("run", "id of the run that it belongs to, or null", "submission.attempt.run_id"),
                text("author", "public name of the author, null for attempts of runs"),
                text("problem", "slug of the problem", "submission.problem"),
                text("problem_revision", "hash over everything that affects an evaluation"),
                text("backend", "what it is written in", "submission.backend"),
                text("profile", "where it was judged"),
                text("mode", "check, profile, benchmark or ranked"),
                text("verdict", "one-word outcome"),
                *_SCORE,
                integer("score_rule", _RULE),
                text("message", "the outcome in a sentence"),
                text("source_digest", "SHA-256 over names and contents of the source", "submission.source.digest"),
                text("node", "the machine that judged it", "node.name"),
                text("node_owner", _GUEST, "node_owner.slug"),
                text("recorded_on", _RECORDED),
                text("notes", "what the author says of it, in Markdown", "submission.notes"),
                text("built_on", "id of the public submission that its author built on, or null"),
                text("quarantine_reason", "why operators removed it from the boards; null if they did not"),
                moment("queued_at", "when it was queued"),
                moment("started_at", "when a node took it"),
                moment("finished_at", "when it ended"),
            ),
            entries=_evaluations,
        ),
        Table(
            name="season_entries",
            meaning="What counts in seasons for everybody, as first judged and as judged again after the end.",
            columns=(
                text("season", "short name of the season", "season.slug"),
                text("title", "its title", "season.title"),
                text("profile", "where it was judged", "season.profile"),
                moment("opens_at", "when the season opens", "season.opens_at"),
                moment("closes_at", "when it closes", "season.closes_at"),
                moment("final_at", "when its standings became final, or null", "season.final_at"),
                text("team", "public name", "team.name"),
                text("author", "public name", "evaluation.submission.author.username"),
                text("problem", "slug of the problem"),
                text(
                    "problem_revision", "hash over everything that affects an evaluation", "evaluation.problem_revision"
                ),
                moment("entered_at", "when it was handed in"),
                text("state", "of judging it", "evaluation.state"),
                text("verdict", "one-word outcome", "evaluation.verdict"),
                *(replace(column, path=f"evaluation.{column.name}") for column in _SCORE),
                integer("score_rule", _RULE, "evaluation.score_rule"),
                text("evaluation", "id of the evaluation", "evaluation_id"),
                text("final_evaluation", "id of the one after the end, or null", "final_id"),
                text("final_verdict", "its outcome", "final.verdict"),
                number("final_score_low", "lower end of its interval", "final.score_low"),
            ),
            entries=lambda: public_entries(timezone.now()),
        ),
    )
}


def get_table(name: str) -> Table:
    """The table called `name`; raises Refusal (404)."""
    if name not in TABLES:
        raise NotFound("table", name, "There is no such table.", f"Choose one of {', '.join(TABLES)}.")
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
