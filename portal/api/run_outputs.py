"""The API's outputs about models, runs, organisations and prompts."""

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.reverse import reverse

from evaluator.contract import Backend
from portal.accounts.models import Organisation, Role
from portal.api.fields import URI, CopiedFields, Made, VerdictField, address, page, shows, values_of
from portal.api.problem_details import FieldErrorOutput
from portal.deliveries.models import TEST_KIND, Delivery, Endpoint
from portal.runs.actions import LineResult, RunDeclaration
from portal.runs.actions.importing import Program
from portal.runs.figures import Bounds, Estimate
from portal.runs.models import Attempt, EventKind, LanguageModel, Run, RunEvent, Trajectory
from portal.runs.page_data import Progress
from portal.runs.prompts import Prompt
from portal.runs.queries import ModelRow, RunFigures, run_figures
from portal.runs.solution_trees import Unmatched

_BACKENDS = values_of(Backend)
SHOWN_P = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""The values of p that a run's figures list."""


@shows(Prompt, "problem revision backend profile version digest example text")
class PromptOutput(CopiedFields):
    """A task prompt.

    Attributes:
        version: The version of wording, rules and examples.
        digest: SHA-256 of version, a line break and text.
        example: The problem of the worked example; empty for a version without one.
    """

    backend = serializers.ChoiceField(choices=_BACKENDS)


@shows(LanguageModel, "slug name version provider organisation=organisation.slug page")
class ModelOutput(CopiedFields):
    """A model."""

    page = page("/models/{0.slug}/")


@shows(Estimate, "k value low high")
class EstimateOutput(CopiedFields):
    """A figure by the unbiased estimator over the measured problems, with its 95 % interval."""


class SpeedEstimateOutput(EstimateOutput):
    """fast_p@1 at one p."""

    p = serializers.FloatField()


@shows(Bounds, "low high")
class BoundsOutput(CopiedFields):
    """Between what a figure over all problems lies, whatever the samples that are not measured turn out to be."""


@shows(
    RunFigures,
    "problems attempted measured programs judged is_complete solved faster correct_at_1 correct_at_k best_of_k bounds "
    "fast fast_by_point published_classes geomean_speedup score_rule verdicts pending=without_verdict.pending "
    "unranked=without_verdict.unranked missing=without_verdict.missing primitives cost_usd tokens",
)
class FiguresOutput(CopiedFields):
    """A run's figures over all problems.

    Attributes:
        measured: Problems in the estimates: all but those that the profile or the judge could not measure.
        programs: Samples that have their verdict or wait for it.
        judged: Samples that have their verdict.
        is_complete: Whether all of them have. Incomplete runs are not ranked.
        solved: Problems with a sample that passed.
        faster: Of these, problems with a sample significantly faster than the reference: the whole interval of its
            speedup is above 1.
        geomean_speedup: Over solved problems, best sample each.
        score_rule: The timing rule of the speedups: the earliest rule among all scores, until every score is by a later
            one.
        verdicts: Samples by verdict.
        pending: Samples that wait for a verdict.
        unranked: Samples whose attempts were all in modes check and profile, or cancelled.
        missing: Samples that the run declares but does not contain. They count as failed.
        primitives: For each primitive: the number of solved problems with a correct sample that uses it.
    """

    correct_at_1 = EstimateOutput(allow_null=True, help_text="Null until the run is complete.")
    correct_at_k = EstimateOutput(allow_null=True, help_text="Null until the run is complete.")
    best_of_k = EstimateOutput(allow_null=True, help_text="Published as pass@k. Null until the run is complete.")
    bounds = BoundsOutput(help_text="Of correct@1 over all problems.")
    fast = Made(
        lambda figures, _: _fast(figures, by_point=False),
        SpeedEstimateOutput(many=True),
        help_text="fast_p@1 at a few p; empty until the run is complete.",
    )
    fast_by_point = Made(
        lambda figures, _: _fast(figures, by_point=True),
        SpeedEstimateOutput(many=True),
        help_text="The same by point estimates, as publications count.",
    )
    published_classes = serializers.DictField(
        source="endings", child=serializers.IntegerField(), help_text="Samples by the failure modes of the publication."
    )


def _fast(figures: RunFigures, *, by_point: bool) -> list[dict[str, float]]:
    found = ((p, figures.fast_at(p, by_point=by_point)) for p in SHOWN_P)
    return [{"p": p, **asdict(estimate)} for p, estimate in found if estimate]


@shows(
    Run,
    "id url page organisation=model.organisation.slug model mode backend profile k sampling prompt_version cost_usd "
    "notes state verification is_quarantined recorded_on recorded_where created_at published_at attempts pending",
)
class RunBrief(CopiedFields):
    """A run as a list shows it. Takes the counts from its annotations.

    Attributes:
        cost_usd: As declared for the whole run.
        recorded_on: The last date, if it was judged elsewhere; null if this site judged it.
        recorded_where: The hardware, if it was judged elsewhere.
    """

    url = address("api:run", run_id="pk")
    page = page("/runs/{0.pk}/")
    model = ModelOutput()
    sampling = serializers.DictField()
    attempts = serializers.IntegerField(source="attempt_count")
    pending = serializers.IntegerField(source="pending_count")


class RunDetail(RunBrief):
    """A run with its figures."""

    figures = Made(lambda run, _: FiguresOutput(run_figures(run)).data, FiguresOutput)


@shows(
    Attempt,
    "id key problem sample step mode backend state verdict message score score_low score_high "
    "score_rule=evaluation.score_rule submission submission_id evaluation_id tokens_in tokens_out cost_usd seconds "
    "has_trajectory created_at ended_at",
)
class AttemptOutput(CopiedFields):
    """One attempt and its result.

    Attributes:
        backend: What it is judged as.
        score_rule: The timing rule of the score. Scores of different rules are not comparable.
    """

    verdict = VerdictField(help_text="Null until it is known.")
    submission = Made(
        lambda attempt, context: (
            attempt.submission_id
            and reverse("api:submission", args=[attempt.submission_id], request=context["request"])
        ),
        {**URI, "type": ["string", "null"]},
        help_text="Null if the text alone decided.",
    )


@shows(Trajectory, "key=attempt.key text")
class TrajectoryOutput(CopiedFields):
    """What an agent did on the way to an attempt."""


@shows(LineResult, "line key status attempt_id=attempt.id verdict errors")
class LineResultOutput(CopiedFields):
    """What became of one line of an upload."""

    status = serializers.ChoiceField(choices=["created", "repeated", "refused", "over_quota"])
    verdict = VerdictField(source="attempt.verdict", default=None, help_text="Set if the text alone decided.")
    errors = Made(  # type: ignore[assignment]  # the metaclass takes it out of the class
        lambda result, _: [FieldErrorOutput(result.refusal).data] if result.refusal else [], FieldErrorOutput(many=True)
    )


class BulkResultOutput(serializers.Serializer[Any]):
    """What became of an upload."""

    received = Made(lambda bulk, _: len(bulk.results), int, help_text="Lines that were read.")
    created = serializers.IntegerField(source="counts.created", help_text="New attempts.")
    repeated = serializers.IntegerField(source="counts.repeated", help_text="Attempts that were stored already.")
    refused = serializers.IntegerField(source="counts.refused", help_text="Lines that were refused as wrong.")
    over_quota = serializers.IntegerField(
        source="counts.over_quota", help_text="Lines that were refused and may be sent again later."
    )
    results = LineResultOutput(many=True)


@shows(Program, "path=match.path problem=match.problem by note=match.note backend")
class MatchOutput(CopiedFields):
    """A file of a tree and its problem.

    Attributes:
        backend: What its text shows.
    """

    by = serializers.ChoiceField(
        choices=["slug", "name", "choice"], source="match.by", help_text="name: the name that it was published under."
    )


@shows(Unmatched, "path reason")
class NoMatchOutput(CopiedFields):
    """A file of a tree that became no attempt."""


@shows(RunDeclaration, "model version provider organisation backend profile notes")
class TreeRunOutput(CopiedFields):
    """The run that a tree would become; empty where nothing says it.

    Attributes:
        backend: What the model was asked for.
    """


class ImportPreviewOutput(serializers.Serializer[Any]):
    """What an import would do."""

    run = TreeRunOutput(source="declaration")
    backends = serializers.DictField(child=serializers.IntegerField(), help_text="Programs by what they are judged as.")
    matched = MatchOutput(source="programs", many=True)
    unmatched = NoMatchOutput(many=True)
    lacking = FieldErrorOutput(many=True, help_text="Fields that the import still needs.")


class ImportOutput(serializers.Serializer[Any]):
    """What became of a tree of solutions."""

    run = Made(lambda _, context: context["run"], RunDetail)
    matched = MatchOutput(source="understood.programs", many=True)
    unmatched = NoMatchOutput(source="understood.unmatched", many=True)
    bulk = BulkResultOutput()


@shows(
    RunEvent,
    "id kind at attempt_id key=attempt.key problem=attempt.problem sample=attempt.sample step=attempt.step verdict "
    "message score score_low score_high",
)
class RunEventOutput(CopiedFields):
    """Something that happened to a run. `score_low` and `score_high` are null once the attempt was judged again."""

    verdict = VerdictField()


class EventPageOutput(serializers.Serializer[Any]):
    """What has happened after a cursor."""

    events = RunEventOutput(many=True)
    next = serializers.IntegerField(help_text="Send it as `after`.")
    pending = serializers.IntegerField()
    total = serializers.IntegerField()
    poll_after_s = serializers.IntegerField(allow_null=True, help_text="Null once nothing is pending.")


@shows(Progress, "step solved faster speedup_solved speedup_all attempts cost_usd")
class ProgressOutput(CopiedFields):
    """What an agent had reached by a step, with each problem's best program till then.

    Attributes:
        solved: Problems with an attempt that passed, including attempts in modes check and profile.
        faster: Of these, problems with a sample significantly faster than the reference: the whole interval of its
            speedup is above 1.
        speedup_solved: Geometric mean over solved, timed problems.
        speedup_all: The same over all problems. A problem without a faster program counts as 1.
        attempts: Attempts so far.
        cost_usd: Their cost so far, as declared.
    """


@shows(
    ModelRow,
    "run=run.id page model mode=run.mode backend=run.backend k=run.k verification=run.verification "
    "published_at=run.published_at prompt_version=run.prompt_version place fast_p figures",
)
class ModelRowOutput(CopiedFields):
    """One published run on the model board.

    Attributes:
        place: Among the runs with the same of our prompts, or with others: one more than how many are distinguishably
            better (exact McNemar test over problems, 5 %). Runs may share it. Null if not ranked.
    """

    page = page("/runs/{0.run.pk}/")
    model = ModelOutput(source="run.model")
    fast_p = EstimateOutput(source="fast", allow_null=True, help_text="At the requested p; null until complete.")
    figures = FiguresOutput()


class ModelBoardOutput(serializers.Serializer[Any]):
    """The published runs on a profile, prompt by prompt, best first; those that are not ranked come last."""

    profile = serializers.CharField()
    p = serializers.FloatField()
    faster = serializers.CharField(help_text="What has to be above p: the whole interval, or the point estimate.")
    rows = ModelRowOutput(many=True)


@shows(Organisation, "slug name role members owners sponsor")
class OrganisationOutput(CopiedFields):
    """An organisation of the caller's."""

    role = Made(
        # Operators act as owners where they are no members.
        lambda organisation, context: _roles(organisation).get(context["request"].user.username, Role.OWNER.value),
        {"type": "string", "enum": Role.values},
        help_text="The caller's own.",
    )
    members = Made(lambda organisation, _: [*_roles(organisation)], list[str], help_text="By name, owners among them.")
    owners = Made(
        lambda organisation, _: [name for name, role in _roles(organisation).items() if role == Role.OWNER],
        list[str],
        help_text="By name.",
    )
    sponsor = Made(
        lambda organisation, _: organisation.sponsor.username if organisation.payer_id else None,
        str | None,
        help_text="The account whose allowance of GPU time it uses; null: its own.",
    )


def _roles(organisation: Organisation) -> dict[str, str]:
    return {row.user.username: row.role for row in organisation.memberships.all()}


class QuotaOutput(serializers.Serializer[Any]):
    """GPU-seconds in the last 30 days of the allowance that an organisation draws on."""

    organisation = serializers.CharField(source="payer.organisation")
    sponsor = serializers.CharField(
        source="payer.account",
        allow_null=True,
        help_text=(
            "The account whose allowance it is, shared by all organisations that it sponsors; null: the "
            "organisation's own."
        ),
    )
    window_days = serializers.IntegerField(source="window.days")
    limit_gpu_s = serializers.FloatField()
    used_gpu_s = serializers.FloatField()
    reserved_gpu_s = serializers.FloatField()
    remaining_gpu_s = serializers.FloatField()
    next_release_at = serializers.DateTimeField(allow_null=True, help_text="When the oldest use is 30 days old.")


@shows(Endpoint, "id url events failures created_at removed_at")
class WebhookOutput(CopiedFields):
    """A webhook without its secret.

    Attributes:
        failures: Failures in a row. The site waits longer after more failures.
    """

    events = serializers.ListField(child=serializers.ChoiceField(choices=EventKind.values), source="kinds")


@shows(Endpoint, "secret")
class NewWebhookOutput(WebhookOutput):
    """A new webhook with its secret, which is not shown again."""


@shows(
    Delivery,
    "id event run=event.run_id state tries next_try_at answer_status error created_at delivered_at",
)
class DeliveryOutput(CopiedFields):
    """One line of a webhook's log.

    Attributes:
        run: Null for a test.
    """

    event = serializers.ChoiceField(choices=[*EventKind.values, TEST_KIND], source="kind")
