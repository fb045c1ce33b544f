"""The API's outputs about models, runs, organisations and prompts."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.reverse import reverse

from evaluator.contract import Backend, Mode
from portal.accounts.models import Invitation, InvitationState, Organisation, Role
from portal.api.fields import SCORE_RULE_HELP, URI, AddressField, CountField, PageField, VerdictField, values_of
from portal.api.problem_details import FieldErrorOutput
from portal.deliveries.models import TEST_KIND, DeliveryState, Endpoint
from portal.runs.models import (
    Attempt,
    AttemptState,
    EventKind,
    LanguageModel,
    Run,
    RunEvent,
    RunMode,
    RunState,
    Verification,
)
from portal.runs.queries import RunFigures, run_figures

_BACKENDS = values_of(Backend)
_FASTER_HELP = (
    "Of these, problems with a sample significantly faster than the reference: the whole interval of its speedup "
    "is above 1."
)
SHOWN_P = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""The values of p that a run's figures list."""


class PromptOutput(serializers.Serializer[Any]):
    """A task prompt."""

    problem = serializers.CharField()
    revision = serializers.CharField()
    backend = serializers.ChoiceField(choices=_BACKENDS)
    profile = serializers.CharField()
    version = serializers.CharField(help_text="The version of wording, rules and examples.")
    digest = serializers.CharField(help_text="SHA-256 of version, a line break and text.")
    example = serializers.CharField(help_text="The problem of the worked example.")
    text = serializers.CharField()


class ModelOutput(serializers.Serializer[LanguageModel]):
    """A model."""

    slug = serializers.CharField()
    name = serializers.CharField()
    version = serializers.CharField(allow_blank=True)
    provider = serializers.CharField(allow_blank=True)
    organisation = serializers.CharField(source="organisation.slug")
    page = PageField("/models/{0.slug}/")


class EstimateOutput(serializers.Serializer[Any]):
    """A figure by the unbiased estimator over the measured problems, with its 95 % interval."""

    k = serializers.IntegerField()
    value = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()


class SpeedEstimateOutput(EstimateOutput):
    """fast_p@1 at one p."""

    p = serializers.FloatField()


class BoundsOutput(serializers.Serializer[Any]):
    """Between what a figure over all problems lies, whatever the samples that are not measured turn out to be."""

    low = serializers.FloatField()
    high = serializers.FloatField()


class FiguresOutput(serializers.Serializer[RunFigures]):
    """A run's figures over all problems."""

    problems = serializers.IntegerField()
    attempted = serializers.IntegerField()
    measured = serializers.IntegerField(
        help_text="Problems in the estimates: all but those that the profile or the judge could not measure."
    )
    programs = serializers.IntegerField(help_text="Samples that have their verdict or wait for it.")
    judged = serializers.IntegerField(help_text="Samples that have their verdict.")
    is_complete = serializers.BooleanField(help_text="Whether all of them have. Incomplete runs are not ranked.")
    solved = serializers.IntegerField(help_text="Problems with a sample that passed.")
    faster = serializers.IntegerField(help_text=_FASTER_HELP)
    correct_at_1 = EstimateOutput(allow_null=True, help_text="Null until the run is complete.")
    correct_at_k = EstimateOutput(allow_null=True, help_text="Null until the run is complete.")
    bounds = BoundsOutput(help_text="Of correct@1 over all problems.")
    fast = serializers.SerializerMethodField(help_text="fast_p@1 at a few p; empty until the run is complete.")
    geomean_speedup = serializers.FloatField(allow_null=True, help_text="Over solved problems, best sample each.")
    score_rule = serializers.IntegerField(
        help_text=(
            "The timing rule of the speedups: the earliest rule among all scores, until every score is by a later one."
        )
    )
    verdicts = serializers.DictField(child=serializers.IntegerField(), help_text="Samples by verdict.")
    pending = serializers.IntegerField(source="without_verdict.pending", help_text="Samples that wait for a verdict.")
    unranked = serializers.IntegerField(
        source="without_verdict.unranked",
        help_text="Samples whose attempts were all in modes check and profile, or cancelled.",
    )
    missing = serializers.IntegerField(
        source="without_verdict.missing",
        help_text="Samples that the run declares but does not contain. They count as failed.",
    )
    primitives = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="For each primitive: the number of solved problems with a correct sample that uses it.",
    )
    cost_usd = serializers.FloatField(allow_null=True)
    tokens = serializers.IntegerField(allow_null=True)

    @extend_schema_field(SpeedEstimateOutput(many=True))
    def get_fast(self, figures: RunFigures) -> Any:
        found = ((p, figures.fast_at(p)) for p in SHOWN_P)
        return [{"p": p, "k": at.k, "value": at.value, "low": at.low, "high": at.high} for p, at in found if at]


class RunBrief(serializers.Serializer[Run]):
    """A run as a list shows it. Takes the counts from its annotations."""

    id = serializers.UUIDField()
    url = AddressField("api:run", lookup_url_kwarg="run_id")
    page = PageField("/runs/{0.pk}/")
    organisation = serializers.CharField(source="model.organisation.slug")
    model = ModelOutput()
    mode = serializers.ChoiceField(choices=RunMode.values)
    backend = serializers.ChoiceField(choices=_BACKENDS)
    profile = serializers.CharField()
    k = serializers.IntegerField()
    sampling = serializers.DictField()
    prompt_version = serializers.CharField(allow_blank=True)
    cost_usd = serializers.FloatField(allow_null=True, help_text="As declared for the whole run.")
    notes = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(choices=RunState.values)
    verification = serializers.ChoiceField(choices=Verification.values)
    is_quarantined = serializers.BooleanField()
    recorded_on = serializers.DateField(
        allow_null=True, help_text="The last date, if it was judged elsewhere; null if this site judged it."
    )
    recorded_where = serializers.CharField(allow_blank=True, help_text="The hardware, if it was judged elsewhere.")
    created_at = serializers.DateTimeField()
    published_at = serializers.DateTimeField(allow_null=True)
    attempts = serializers.IntegerField(source="attempt_count")
    pending = serializers.IntegerField(source="pending_count")


class RunDetail(RunBrief):
    """A run with its figures."""

    figures = serializers.SerializerMethodField()

    @extend_schema_field(FiguresOutput)
    def get_figures(self, run: Run) -> Any:
        """As the run's page shows them."""
        return FiguresOutput(run_figures(run)).data


class AttemptOutput(serializers.Serializer[Attempt]):
    """One attempt and its result."""

    id = serializers.IntegerField()
    key = serializers.CharField()
    problem = serializers.CharField()
    sample = serializers.IntegerField()
    step = serializers.IntegerField()
    mode = serializers.ChoiceField(choices=values_of(Mode))
    backend = serializers.ChoiceField(choices=values_of(Backend), help_text="What it is judged as.")
    state = serializers.ChoiceField(choices=AttemptState.values)
    verdict = VerdictField(help_text="Null until it is known.")
    message = serializers.CharField(allow_blank=True)
    score = serializers.FloatField(allow_null=True)
    score_low = serializers.FloatField(allow_null=True)
    score_high = serializers.FloatField(allow_null=True)
    score_rule = serializers.IntegerField(source="evaluation.score_rule", allow_null=True, help_text=SCORE_RULE_HELP)
    submission = serializers.SerializerMethodField(help_text="Null if the text alone decided.")
    submission_id = serializers.UUIDField(allow_null=True)
    evaluation_id = serializers.UUIDField(allow_null=True)
    tokens_in = serializers.IntegerField(allow_null=True)
    tokens_out = serializers.IntegerField(allow_null=True)
    cost_usd = serializers.FloatField(allow_null=True)
    seconds = serializers.FloatField(allow_null=True)
    has_trajectory = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field({**URI, "type": ["string", "null"]})
    def get_submission(self, attempt: Attempt) -> str | None:
        if attempt.submission_id is None:
            return None
        return reverse("api:submission", args=[attempt.submission_id], request=self.context["request"])


class TrajectoryOutput(serializers.Serializer[Any]):
    """What an agent did on the way to an attempt."""

    key = serializers.CharField()
    text = serializers.CharField(allow_blank=True)


class LineResultOutput(serializers.Serializer[Any]):
    """What became of one line of an upload."""

    line = serializers.IntegerField()
    key = serializers.CharField(allow_blank=True)
    status = serializers.ChoiceField(choices=["created", "repeated", "refused", "over_quota"])
    attempt_id = serializers.IntegerField(source="attempt.pk", allow_null=True)
    verdict = VerdictField(source="attempt.verdict", default=None, help_text="Set if the text alone decided.")
    errors = serializers.SerializerMethodField()  # type: ignore[assignment]  # the metaclass takes it out of the class

    @extend_schema_field(FieldErrorOutput(many=True))
    def get_errors(self, result: Any) -> Any:
        """The refusal, in the words of a problem document."""
        return [] if result.refusal is None else [FieldErrorOutput(result.refusal).data]


class BulkResultOutput(serializers.Serializer[Any]):
    """What became of an upload."""

    received = serializers.SerializerMethodField()
    created = CountField(help_text="New attempts.")
    repeated = CountField(help_text="Attempts that were stored already.")
    refused = CountField(help_text="Lines that were refused as wrong.")
    over_quota = CountField(help_text="Lines that were refused and may be sent again later.")
    results = LineResultOutput(many=True)

    def get_received(self, bulk: Any) -> int:
        """Lines that were read."""
        return len(bulk.results)


class MatchOutput(serializers.Serializer[Any]):
    """A file of a tree and its problem."""

    path = serializers.CharField(source="match.path")
    problem = serializers.CharField(source="match.problem")
    by = serializers.ChoiceField(
        choices=["slug", "name", "choice"], source="match.by", help_text="name: the name that it was published under."
    )
    note = serializers.CharField(source="match.note", allow_blank=True)
    backend = serializers.ChoiceField(choices=values_of(Backend), help_text="What its text shows.")


class NoMatchOutput(serializers.Serializer[Any]):
    """A file of a tree that became no attempt."""

    path = serializers.CharField()
    reason = serializers.CharField()


class TreeRunOutput(serializers.Serializer[Any]):
    """The run that a tree would become; empty where nothing says it."""

    model = serializers.CharField(allow_blank=True)
    version = serializers.CharField(allow_blank=True)
    provider = serializers.CharField(allow_blank=True)
    organisation = serializers.CharField(allow_null=True)
    backend = serializers.CharField(help_text="What the model was asked for.")
    profile = serializers.CharField(allow_blank=True)
    notes = serializers.CharField(allow_blank=True)


class ImportPreviewOutput(serializers.Serializer[Any]):
    """What an import would do."""

    run = TreeRunOutput(source="declaration")
    backends = serializers.DictField(child=serializers.IntegerField(), help_text="Programs by what they are judged as.")
    matched = MatchOutput(source="programs", many=True)
    unmatched = NoMatchOutput(many=True)
    lacking = FieldErrorOutput(many=True, help_text="Fields that the import still needs.")


class ImportOutput(serializers.Serializer[Any]):
    """What became of a tree of solutions."""

    run = serializers.SerializerMethodField()
    matched = MatchOutput(source="understood.programs", many=True)
    unmatched = NoMatchOutput(source="understood.unmatched", many=True)
    bulk = BulkResultOutput()

    @extend_schema_field(RunDetail)
    def get_run(self, _imported: Any) -> Any:
        """The new run, as the view describes it."""
        return self.context["run"]


class RunEventOutput(serializers.Serializer[RunEvent]):
    """Something that happened to a run."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=EventKind.values)
    at = serializers.DateTimeField()
    attempt_id = serializers.IntegerField(allow_null=True)
    key = serializers.CharField(source="attempt.key", default=None, allow_null=True)
    problem = serializers.CharField(source="attempt.problem", default=None, allow_null=True)
    sample = serializers.IntegerField(source="attempt.sample", default=None, allow_null=True)
    step = serializers.IntegerField(source="attempt.step", default=None, allow_null=True)
    verdict = VerdictField()
    message = serializers.CharField(allow_blank=True)
    score = serializers.FloatField(allow_null=True)


class EventPageOutput(serializers.Serializer[Any]):
    """What has happened after a cursor."""

    events = RunEventOutput(many=True)
    next = serializers.IntegerField(help_text="Send it as `after`.")
    pending = serializers.IntegerField()
    total = serializers.IntegerField()
    poll_after_s = serializers.IntegerField(allow_null=True, help_text="Null once nothing is pending.")


class ProgressOutput(serializers.Serializer[Any]):
    """What an agent had reached by a step, with each problem's best program till then."""

    step = serializers.IntegerField()
    solved = serializers.IntegerField(
        help_text="Problems with an attempt that passed, including attempts in modes check and profile."
    )
    faster = serializers.IntegerField(help_text=_FASTER_HELP)
    speedup_solved = serializers.FloatField(allow_null=True, help_text="Geometric mean over solved, timed problems.")
    speedup_all = serializers.FloatField(
        allow_null=True, help_text="The same over all problems. A problem without a faster program counts as 1."
    )
    attempts = serializers.IntegerField(help_text="Attempts so far.")
    cost_usd = serializers.FloatField(allow_null=True, help_text="Their cost so far, as declared.")


class ModelRowOutput(serializers.Serializer[Any]):
    """One published run on the model board."""

    run = serializers.UUIDField(source="run.pk")
    page = PageField("/runs/{0.run.pk}/")
    model = ModelOutput(source="run.model")
    mode = serializers.ChoiceField(choices=RunMode.values, source="run.mode")
    backend = serializers.ChoiceField(choices=_BACKENDS, source="run.backend")
    k = serializers.IntegerField(source="run.k")
    verification = serializers.ChoiceField(choices=Verification.values, source="run.verification")
    published_at = serializers.DateTimeField(source="run.published_at", allow_null=True)
    prompt_version = serializers.CharField(source="run.prompt_version", allow_blank=True)
    place = serializers.IntegerField(
        allow_null=True,
        help_text=(
            "Among the runs with the same of our prompts, or with others: one more than how many are distinguishably "
            "better (exact McNemar test over problems, 5 %). Runs may share it. Null if not ranked."
        ),
    )
    fast_p = EstimateOutput(source="fast", allow_null=True, help_text="At the requested p; null until complete.")
    figures = FiguresOutput()


class ModelBoardOutput(serializers.Serializer[Any]):
    """The published runs on a profile, prompt by prompt, best first; those that are not ranked come last."""

    profile = serializers.CharField()
    p = serializers.FloatField()
    rows = ModelRowOutput(many=True)


class OrganisationOutput(serializers.Serializer[Organisation]):
    """An organisation of the caller's."""

    slug = serializers.CharField()
    name = serializers.CharField()
    role = serializers.SerializerMethodField(help_text="The caller's own.")
    members = serializers.SerializerMethodField(help_text="By name, owners among them.")
    owners = serializers.SerializerMethodField(help_text="By name.")
    sponsor = serializers.SerializerMethodField(
        help_text="The account whose allowance of GPU time it uses; null: its own."
    )

    @extend_schema_field({"type": "string", "enum": Role.values})
    def get_role(self, organisation: Organisation) -> str:
        username = self.context["request"].user.username
        roles = {row.user.username: row.role for row in organisation.memberships.all()}
        return roles.get(username, Role.OWNER.value)  # operators act as owners where they are no members

    @extend_schema_field({"type": "array", "items": {"type": "string"}})
    def get_members(self, organisation: Organisation) -> list[str]:
        return [row.user.username for row in organisation.memberships.all()]

    @extend_schema_field({"type": "array", "items": {"type": "string"}})
    def get_owners(self, organisation: Organisation) -> list[str]:
        return [row.user.username for row in organisation.memberships.all() if row.role == Role.OWNER]

    def get_sponsor(self, organisation: Organisation) -> str | None:
        return organisation.sponsor.username if organisation.payer_id and organisation.sponsor else None


class InvitationOutput(serializers.Serializer[Invitation]):
    """An invitation to an organisation."""

    id = serializers.IntegerField()
    organisation = serializers.CharField(source="organisation.slug")
    name = serializers.CharField(source="organisation.name")
    username = serializers.CharField(source="invited.username", help_text="Who is invited.")
    role = serializers.ChoiceField(choices=Role.values)
    invited_by = serializers.CharField(source="invited_by.username")
    state = serializers.ChoiceField(choices=InvitationState.values)
    created_at = serializers.DateTimeField()


class QuotaOutput(serializers.Serializer[Any]):
    """GPU-seconds in the last 30 days of the allowance that an organisation draws on."""

    organisation = serializers.CharField()
    sponsor = serializers.CharField(
        allow_null=True,
        help_text=(
            "The account whose allowance it is, shared by all organisations that it sponsors; null: the "
            "organisation's own."
        ),
    )
    window_days = serializers.IntegerField()
    limit_gpu_s = serializers.FloatField()
    used_gpu_s = serializers.FloatField()
    reserved_gpu_s = serializers.FloatField()
    remaining_gpu_s = serializers.FloatField()
    next_release_at = serializers.DateTimeField(allow_null=True, help_text="When the oldest use is 30 days old.")


class WebhookOutput(serializers.Serializer[Endpoint]):
    """A webhook without its secret."""

    id = serializers.IntegerField()
    url = serializers.CharField()
    events = serializers.ListField(child=serializers.ChoiceField(choices=EventKind.values), source="kinds")
    failures = serializers.IntegerField(help_text="Failures in a row. The site waits longer after more failures.")
    created_at = serializers.DateTimeField()
    removed_at = serializers.DateTimeField(allow_null=True)


class NewWebhookOutput(WebhookOutput):
    """A new webhook with its secret, which is not shown again."""

    secret = serializers.CharField()


class DeliveryOutput(serializers.Serializer[Any]):
    """One line of a webhook's log."""

    id = serializers.UUIDField()
    event = serializers.ChoiceField(choices=[*EventKind.values, TEST_KIND], source="kind")
    run = serializers.UUIDField(source="event.run_id", default=None, allow_null=True, help_text="Null for a test.")
    again_of = serializers.UUIDField(
        source="again_of_id", allow_null=True, help_text="The failed delivery that this one repeats."
    )
    state = serializers.ChoiceField(choices=DeliveryState.values)
    tries = serializers.IntegerField()
    next_try_at = serializers.DateTimeField(allow_null=True)
    answer_status = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    delivered_at = serializers.DateTimeField(allow_null=True)
