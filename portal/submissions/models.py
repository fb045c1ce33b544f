"""Submissions, their evaluations and the reports on them.

Nothing here is overwritten once an evaluation has ended: a rejudge adds an evaluation. Every state move is made in
`actions.py` as a compare-and-set on the row.
"""

import json
import uuid
from datetime import date

from django.conf import settings
from django.db import models
from django.utils import timezone

from evaluator.contract import Backend, EvaluationReport, Mode, SourceBundle, Verdict
from portal.nodes.models import Node


class Source(models.Model):
    """The files of a submission, stored once per content."""

    digest = models.CharField(max_length=64, unique=True)
    bundle = models.JSONField(help_text="evaluator.contract.SourceBundle")
    size_bytes = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.digest[:12]

    @property
    def files(self) -> SourceBundle:
        """The stored files as the judge takes them."""
        return SourceBundle.from_json(json.dumps(self.bundle))


class Visibility(models.TextChoices):
    """Who may read a submission's source."""

    PRIVATE = "private", "Only me"
    PUBLIC = "public", "Everyone"


class Submission(models.Model):
    """One source for one problem by one author.

    `asked_visibility` is what its request said: a repeated request is held against it, whatever the author has made of
    `visibility` since. It is empty for attempts of runs and for what is older than the field.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="submissions")
    problem = models.SlugField(max_length=100, db_index=True)
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="submissions")
    backend = models.CharField(max_length=20, choices=[(backend.value, backend.value) for backend in Backend])
    visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.PRIVATE)
    asked_visibility = models.CharField(max_length=10, blank=True, default="", editable=False)
    note = models.CharField(max_length=200, blank=True)
    idempotency_key = models.CharField(max_length=100, null=True, blank=True)
    is_attempt = models.BooleanField(
        default=False, help_text="Whether it belongs to a model's run: never on a person's board or in their lists."
    )
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.UniqueConstraint(fields=("author", "idempotency_key"), name="one_submission_per_idempotency_key"),
        )
        indexes = (models.Index(fields=("author", "-created_at", "-id"), name="newest_of_an_author"),)

    def __str__(self) -> str:
        return str(self.id)


class State(models.TextChoices):
    """Where an evaluation is. Queued -> leased -> running -> finished; a lost lease goes back to queued.

    What has to be compiled first goes queued -> building -> built -> leased where a node builds ahead of its slots.
    """

    QUEUED = "queued", "Queued"
    BUILDING = "building", "Being compiled"
    BUILT = "built", "Compiled, waits for a slot"
    LEASED = "leased", "Sent to a node"
    RUNNING = "running", "Being judged"
    FINISHED = "finished", "Finished"
    CANCELLED = "cancelled", "Cancelled"

    @classmethod
    def ended(cls) -> tuple["State", "State"]:
        """The states that nothing leaves."""
        return (cls.FINISHED, cls.CANCELLED)

    @classmethod
    def unfinished(cls) -> tuple["State", ...]:
        """All others: few rows among millions, which the queue's index finds; `exclude(state__in=...)` finds none."""
        return tuple(state for state in cls if state not in cls.ended())


def recorded_mark(on: date | None, where: str) -> str:
    """What stands beside every figure that was measured elsewhere; empty where `on` is None."""
    return f"recorded on {on.day} {on:%B %Y}, {where}" if on is not None else ""


class Evaluation(models.Model):
    """One judging of a submission on a profile, and its place in the queue."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    submission = models.ForeignKey(Submission, on_delete=models.PROTECT, related_name="evaluations")
    problem_revision = models.CharField(max_length=16)
    profile = models.CharField(max_length=40, db_index=True)
    mode = models.CharField(max_length=10, choices=[(mode.value, mode.value) for mode in Mode])
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    priority = models.SmallIntegerField(default=0, help_text="Higher goes first.")
    attempt = models.PositiveSmallIntegerField(default=1, help_text="1, or more after a failure of ours.")
    queued_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    lease = models.CharField(max_length=64, null=True, blank=True, unique=True)
    node = models.ForeignKey(Node, null=True, blank=True, on_delete=models.SET_NULL, related_name="evaluations")
    slot_index = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="The slot where it is judged, or the builder while it is compiled."
    )
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True)

    stage = models.CharField(max_length=20, blank=True)
    stage_detail = models.CharField(max_length=300, blank=True)
    stage_fraction = models.FloatField(null=True, blank=True)
    stage_since = models.DateTimeField(null=True, blank=True)

    verdict = models.CharField(max_length=30, blank=True, choices=[(v.value, v.value) for v in Verdict])
    message = models.TextField(blank=True)
    score = models.FloatField(null=True, blank=True, help_text="Speedup over the reference.")
    score_low = models.FloatField(null=True, blank=True)
    score_high = models.FloatField(null=True, blank=True)
    score_rule = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="By which rule the score came about (evaluator.contract.SCORE_RULE)."
    )
    primitives = models.JSONField(default=list, blank=True, help_text="The hardware paths that the report found.")
    recorded_on = models.DateField(
        null=True,
        blank=True,
        editable=False,
        help_text="When it was judged elsewhere; empty for what this site judged.",
    )
    recorded_where = models.CharField(max_length=40, blank=True, editable=False, help_text="On what: 4 H200.")

    class Meta:
        ordering = ("-queued_at",)
        indexes = (
            models.Index(fields=("state", "profile", "-priority", "queued_at"), name="queue_order"),
            models.Index(fields=("submission", "-queued_at"), name="evaluations_of_submission"),
            models.Index(fields=("node", "finished_at"), name="use_of_a_node"),
            models.Index(fields=("-queued_at", "-id"), name="evaluations_newest_first"),
            models.Index(fields=("verdict", "-finished_at"), name="evaluations_by_verdict"),
        )
        constraints = (
            models.UniqueConstraint(
                fields=("node", "slot_index"),
                condition=models.Q(state__in=("leased", "running")),
                name="one_evaluation_per_slot",
            ),
            models.UniqueConstraint(
                fields=("node", "slot_index"),
                condition=models.Q(state="building"),
                name="one_evaluation_per_builder",
            ),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.state})"

    @property
    def recorded(self) -> str:
        """The mark of what was judged elsewhere and came as a report; empty for what this site judged."""
        return recorded_mark(self.recorded_on, self.recorded_where)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen to this evaluation."""
        return self.state in State.ended()


class ProfileSwitch(models.Model):
    """Whether the queue of a profile moves. A profile without a row does."""

    profile = models.CharField(primary_key=True, max_length=40)
    is_paused = models.BooleanField(default=False, help_text="A paused queue takes submissions but judges none.")
    note = models.TextField(blank=True, help_text="Why: shown to those whose submissions wait.")

    class Meta:
        verbose_name_plural = "profile switches"

    def __str__(self) -> str:
        return self.profile


class Report(models.Model):
    """The judge's report on an evaluation, as it came. One per try: a retried failure of ours keeps its report."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.PROTECT, related_name="reports")
    attempt = models.PositiveSmallIntegerField()
    node_name = models.CharField(max_length=60)
    content = models.JSONField(help_text="evaluator.contract.EvaluationReport")
    error_log = models.TextField(
        blank=True, default="", help_text="What the judge's own code said where it went wrong; for operators alone."
    )
    received_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("attempt",)
        constraints = (models.UniqueConstraint(fields=("evaluation", "attempt"), name="one_report_per_try"),)

    def __str__(self) -> str:
        return f"report on {self.evaluation_id}, try {self.attempt}"

    @property
    def report(self) -> EvaluationReport:
        """The report as typed data."""
        return EvaluationReport.from_json(json.dumps(self.content))
