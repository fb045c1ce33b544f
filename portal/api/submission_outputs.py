"""What the API says of submissions and their evaluations."""

import json
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.reverse import reverse

from evaluator.contract import Backend, Mode, Stage
from portal.api.fields import SCORE_RULE_HELP, URI, AddressField, VerdictField, values_of
from portal.api.season_views import SubmissionSeason
from portal.seasons.queries import entries_from
from portal.submissions.models import Evaluation, State, Submission, Visibility
from portal.submissions.presentation import verdict_facts


class EvaluationBrief(serializers.Serializer[Evaluation]):
    """One judging of a submission on a profile."""

    id = serializers.UUIDField()
    url = serializers.SerializerMethodField()
    profile = serializers.CharField()
    mode = serializers.ChoiceField(choices=values_of(Mode))
    state = serializers.ChoiceField(choices=values_of(State))
    verdict = VerdictField(help_text="Null until it has ended.")
    message = serializers.CharField(allow_blank=True, help_text="The verdict in one sentence.")
    score = serializers.FloatField(allow_null=True, help_text="Speedup over the reference.")
    score_low = serializers.FloatField(allow_null=True)
    score_high = serializers.FloatField(allow_null=True)
    score_rule = serializers.IntegerField(allow_null=True, help_text=SCORE_RULE_HELP)
    recorded_on = serializers.DateField(
        allow_null=True, help_text="When it was judged elsewhere; null for what this site judged."
    )
    recorded_where = serializers.CharField(allow_blank=True, help_text="On what, then.")
    node_owner = serializers.SerializerMethodField(
        help_text="The organisation whose machine judges it, for boards of its own; null for this site's."
    )
    problem_revision = serializers.CharField()
    attempt = serializers.IntegerField(help_text="More than 1 after a failure of the judge's own.")
    queued_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)

    def get_node_owner(self, evaluation: Evaluation) -> str | None:
        """Its short name."""
        return evaluation.node_owner.slug if evaluation.node_owner else None

    @extend_schema_field(URI)
    def get_url(self, evaluation: Evaluation) -> str:
        """The address of the evaluation with its report."""
        ids = [evaluation.submission_id, evaluation.pk]
        return reverse("api:evaluation", args=ids, request=self.context["request"])


class StageOutput(serializers.Serializer[Evaluation]):
    """What the judge is doing."""

    name = serializers.ChoiceField(choices=values_of(Stage), source="stage")
    detail = serializers.CharField(allow_blank=True, source="stage_detail")
    fraction = serializers.FloatField(allow_null=True, source="stage_fraction", help_text="0 to 1, or null.")
    since = serializers.DateTimeField(allow_null=True, source="stage_since")


class PlaceOutput(serializers.Serializer[Any]):
    """Where a queued evaluation stands."""

    ahead = serializers.IntegerField(help_text="Evaluations that go before it.")
    total = serializers.IntegerField(help_text="Evaluations that wait on its profile.")
    expected_wait_s = serializers.FloatField(allow_null=True, help_text="Seconds; null where nothing is known.")
    is_paused = serializers.BooleanField(help_text="Whether the operator has paused the problem or the queue.")
    pause_reason = serializers.CharField(allow_blank=True, help_text="What the operator says of it.")
    has_node = serializers.BooleanField(help_text="Whether a node judges the profile now.")


class VerdictFactsOutput(serializers.Serializer[Any]):
    """What the site says of a verdict, on its pages too."""

    title = serializers.CharField()
    explanation = serializers.CharField(help_text="What happened, for a kernel author.")
    advice = serializers.CharField(help_text="What to try next.")


class EvaluationDetail(EvaluationBrief):
    """An evaluation with its stage or place while it lasts, and its report afterwards. Takes a LiveView as context."""

    node = serializers.SerializerMethodField(help_text="The node that judges it, or null.")
    stage = serializers.SerializerMethodField(help_text="Null unless it is being judged.")
    queue = serializers.SerializerMethodField(help_text="Null unless it waits.")
    poll_after_s = serializers.SerializerMethodField(help_text="Seconds after which to look again; null at the end.")
    facts = serializers.SerializerMethodField(help_text="The verdict in words; null until there is one.")
    report = serializers.SerializerMethodField(help_text="Findings, timing, ranks; null until it has ended.")

    def get_node(self, evaluation: Evaluation) -> str | None:
        """Its name."""
        return evaluation.node.name if evaluation.node else None

    @extend_schema_field(StageOutput(allow_null=True))
    def get_stage(self, evaluation: Evaluation) -> Any:
        """The last sign of life."""
        is_judged = evaluation.state in (State.BUILDING, State.RUNNING) and evaluation.stage
        return StageOutput(evaluation).data if is_judged else None

    @extend_schema_field(PlaceOutput(allow_null=True))
    def get_queue(self, _evaluation: Evaluation) -> Any:
        """Its place."""
        place = self.context["live"].place
        return PlaceOutput(place).data if place else None

    def get_poll_after_s(self, _evaluation: Evaluation) -> int | None:
        """As the live page does."""
        seconds: int | None = self.context["live"].poll_after_s
        return seconds

    @extend_schema_field(VerdictFactsOutput(allow_null=True))
    def get_facts(self, evaluation: Evaluation) -> Any:
        """As the submission's page says it."""
        facts = verdict_facts(evaluation, self.context["live"].report)
        return VerdictFactsOutput(facts).data if facts else None

    @extend_schema_field({"oneOf": [{"$ref": "#/components/schemas/EvaluationReport"}, {"type": "null"}]})
    def get_report(self, _evaluation: Evaluation) -> Any:
        """The judge's own record, as it came."""
        report = self.context["live"].report
        return json.loads(report.to_json()) if report else None


class SubmissionBrief(serializers.Serializer[Submission]):
    """A submission as a list shows it."""

    id = serializers.UUIDField()
    url = AddressField("api:submission", lookup_url_kwarg="submission_id")
    author = serializers.CharField(source="author.username")
    problem = serializers.CharField()
    backend = serializers.ChoiceField(choices=values_of(Backend))
    visibility = serializers.ChoiceField(choices=Visibility.values)
    note = serializers.CharField(allow_blank=True)
    source_digest = serializers.CharField(source="source.digest")
    created_at = serializers.DateTimeField()
    evaluations = EvaluationBrief(many=True, help_text="Every judging, the newest first.")


class SubmissionDetail(SubmissionBrief):
    """A submission with its newest evaluation in full."""

    evaluation = serializers.SerializerMethodField(help_text="The newest judging in full.")
    seasons = serializers.SerializerMethodField(
        help_text="The seasons that it was handed in for, and whether it counts."
    )

    @extend_schema_field(EvaluationDetail)
    def get_evaluation(self, _submission: Submission) -> Any:
        """The newest evaluation, as the view looked it up."""
        return EvaluationDetail(self.context["live"].evaluation, context=self.context).data

    @extend_schema_field(SubmissionSeason(many=True))
    def get_seasons(self, submission: Submission) -> Any:
        """Those in which its author is in a team."""
        return SubmissionSeason(entries_from(submission), many=True).data


class FileOutput(serializers.Serializer[Any]):
    """One file of a submission."""

    path = serializers.CharField()
    text = serializers.CharField(allow_blank=True)


class SourceOutput(serializers.Serializer[Any]):
    """The files of a submission."""

    digest = serializers.CharField(help_text="SHA-256 over names and contents.")
    files = FileOutput(many=True)
