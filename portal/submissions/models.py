"""Submissions, their evaluations and the reports on them.

Nothing here is overwritten once an evaluation has ended: a rejudge adds an evaluation. Every state move is made in
`lifecycle.py` as a compare-and-set on the row.
"""

import json
import uuid
from datetime import date
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from evaluator.contract import Backend, EvaluationReport, Mode, SourceBundle, Verdict
from portal.accounts.models import Organisation
from portal.nodes.models import Node


class Source(models.Model):
    """The files of a submission, stored once per content.

    A source that others published and this site does not keep has no file in its bundle, and its digest all the same.
    """

    digest = models.CharField(max_length=64)
    bundle = models.JSONField(help_text="evaluator.contract.SourceBundle")
    size_bytes = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        # A constraint, where `unique=True` would make a second index, for patterns that nobody asks for.
        constraints = (models.UniqueConstraint(fields=("digest",), name="one_source_per_digest"),)

    def __str__(self) -> str:
        return self.digest[:12]

    @staticmethod
    def columns_of(bundle: SourceBundle) -> dict[str, Any]:
        """What is stored of the files, beside their digest."""
        size_bytes = sum(len(file.text.encode()) for file in bundle.files)
        return {"bundle": json.loads(bundle.to_json()), "size_bytes": size_bytes}

    @property
    def files(self) -> SourceBundle:
        """The stored files as the judge takes them."""
        return SourceBundle.from_json(json.dumps(self.bundle))


class Visibility(models.TextChoices):
    """Who may read a submission's source."""

    PRIVATE = "private", "Only me"
    PUBLIC = "public", "Everyone"


CLEARED = "*Cleared by an operator:*"
"""How notes begin that an operator has cleared."""


class Submission(models.Model):
    """One source for one problem by one author.

    `requested_visibility` is what its request said: a repeated request is compared with it, whatever `visibility` has
    become since. It is empty for attempts of runs.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="submissions", db_index=False
    )
    problem = models.SlugField(max_length=100, db_index=False)
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="submissions")
    backend = models.CharField(max_length=20, choices=[(backend.value, backend.value) for backend in Backend])
    visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.PRIVATE)
    requested_visibility = models.CharField(max_length=10, blank=True, default="", editable=False)
    note = models.CharField(max_length=200, blank=True, help_text="A line that its author alone sees.")
    notes = models.TextField(
        blank=True, default="", db_default="", help_text="Its author's Markdown, for whoever opens its page."
    )
    built_on = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
        help_text="The earlier submission to the same problem that its author names as its parent.",
    )
    idempotency_key = models.CharField(max_length=100, null=True, blank=True)
    is_attempt = models.BooleanField(
        default=False, help_text="True for an attempt of a model's run. Attempts are on no personal board or list."
    )
    opened_by = models.CharField(
        max_length=120, blank=True, default="", editable=False, help_text="What made its source public for good."
    )
    published_by = models.TextField(
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Who published its source, and where, if this site may judge it but does not show it.",
    )
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.UniqueConstraint(fields=("author", "idempotency_key"), name="one_submission_per_idempotency_key"),
        )
        # Each begins with what is looked for alone as well: one index for both, where every submission writes to all.
        indexes = (
            models.Index(fields=("author", "is_attempt", "-created_at", "-id"), name="newest_of_an_author"),
            models.Index(fields=("problem", "author", "is_attempt", "-created_at", "-id"), name="newest_on_a_problem"),
        )

    def __str__(self) -> str:
        return str(self.id)

    @property
    def has_cleared_notes(self) -> bool:
        """Whether an operator's reason stands in place of its author's notes."""
        return self.notes.startswith(CLEARED)


class State(models.TextChoices):
    """Where an evaluation is. Queued -> leased -> running -> finished; a lost lease goes back to queued.

    What has to be compiled first goes queued -> building -> built -> leased where a node builds ahead of its slots.
    What waits for a profile that no node serves ends as `unserved`, without a verdict and without cost.
    """

    QUEUED = "queued", "Queued"
    BUILDING = "building", "Being compiled"
    BUILT = "built", "Compiled, waits for a slot"
    LEASED = "leased", "Sent to a node"
    RUNNING = "running", "Being judged"
    FINISHED = "finished", "Finished"
    CANCELLED = "cancelled", "Cancelled"
    UNSERVED = "unserved", "Not judged: no node"

    @classmethod
    def ended(cls) -> tuple["State", ...]:
        return (cls.FINISHED, cls.CANCELLED, cls.UNSERVED)

    @classmethod
    def unfinished(cls) -> tuple["State", ...]:
        """All others: few rows among millions, which the queue's index finds; `exclude(state__in=...)` finds none."""
        return tuple(state for state in cls if state not in cls.ended())

    @classmethod
    def waiting(cls) -> tuple["State", ...]:
        """The states in which an evaluation waits for a slot."""
        return (cls.QUEUED, cls.BUILDING, cls.BUILT)

    @classmethod
    def without_a_node(cls) -> tuple["State", ...]:
        """The states in which no node works on it: it is in the queue."""
        return (cls.QUEUED, cls.BUILT)

    @classmethod
    def in_a_slot(cls) -> tuple["State", ...]:
        """The states in which an evaluation occupies a slot."""
        return (cls.LEASED, cls.RUNNING)

    @classmethod
    def under_lease(cls) -> tuple["State", ...]:
        """The states in which a node has it under a lease."""
        return (*cls.in_a_slot(), cls.BUILDING)


_NOT_ENDED = models.Q(state__in=("queued", "building", "built", "leased", "running"))


def recorded_mark(on: date | None, where: str) -> str:
    """The label of every figure that was measured elsewhere; empty if `on` is None."""
    return f"recorded on {on.day} {on:%B %Y}, {where}" if on is not None else ""


class RecordedElsewhere(models.Model):
    """What may have been judged elsewhere and come as a report, with the mark of it."""

    recorded_on = models.DateField(
        null=True,
        blank=True,
        editable=False,
        help_text="When it was judged elsewhere. Empty: this site judged it.",
    )
    recorded_where = models.CharField(
        max_length=40, blank=True, editable=False, help_text="Hardware that judged it, for example: 4 H200."
    )

    class Meta:
        abstract = True

    @property
    def recorded(self) -> str:
        """The mark of what was judged elsewhere; empty for what this site judged."""
        return recorded_mark(self.recorded_on, self.recorded_where)


class Evaluation(RecordedElsewhere):
    """One evaluation of a submission on a profile, and its position in the queue."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    submission = models.ForeignKey(Submission, on_delete=models.PROTECT, related_name="evaluations", db_index=False)
    problem_revision = models.CharField(max_length=16)
    profile = models.CharField(max_length=40)
    mode = models.CharField(max_length=10, choices=[(mode.value, mode.value) for mode in Mode])
    size = models.CharField(
        max_length=10,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The one size that mode profile judges. Empty: the sizes of its profile.",
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    priority = models.SmallIntegerField(default=0, help_text="Higher goes first.")
    payer = models.CharField(
        max_length=40,
        blank=True,
        default="",
        editable=False,
        help_text="Whose allowance and turn it uses, for example: account-7.",
    )
    turn = models.PositiveBigIntegerField(
        default=0, editable=False, help_text="Within a priority, lower goes first: payers take turns."
    )
    attempt = models.PositiveSmallIntegerField(
        default=1, help_text="1 at first; each failure of the site or a node adds 1."
    )
    losses = models.PositiveSmallIntegerField(
        default=0, db_default=0, editable=False, help_text="Assignments that no node took. They cost no try."
    )
    queued_at = models.DateTimeField(default=timezone.now)
    unable_since = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Since when no online node can judge it, while it waits.",
    )
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    lease = models.CharField(max_length=64, null=True, blank=True)
    node = models.ForeignKey(
        Node, null=True, blank=True, on_delete=models.SET_NULL, related_name="evaluations", db_index=False
    )
    slot_index = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="The slot that judges it, or the builder that compiles it."
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
        null=True, blank=True, help_text="The rule that computed the score (evaluator.contract.SCORE_RULE)."
    )
    other_speedups = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text="By other ways of timing (portal.catalog.size_times). They rank nothing and have no interval.",
    )
    primitives = models.JSONField(default=list, blank=True, help_text="The primitives that the judge detected.")
    points = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text="Of a sweep, by name: evaluator.contract.SweepPoint. They are kept however it ends.",
    )
    has_alarms = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="True where its report has an alarm: something to look into.",
    )
    node_owner = models.ForeignKey(
        Organisation,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="judged_evaluations",
        help_text="The organisation whose guest nodes judge it, for boards of their own. Empty: the site's nodes.",
    )
    queued_because = models.CharField(
        max_length=300,
        blank=True,
        default="",
        editable=False,
        help_text="Public reason why an operator had it judged again.",
    )
    request_id = models.CharField(
        max_length=32,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Identifier of the web request that created it. Log lines of site and node carry it.",
    )

    class Meta:
        ordering = ("-queued_at", "-id")
        # Each step of an evaluation writes to all of them. No other begins with the columns that one here begins with.
        indexes = (
            models.Index(fields=("state", "profile", "-priority", "queued_at"), name="queue_order"),
            models.Index(fields=("submission", "-queued_at"), name="evaluations_of_submission"),
            models.Index(fields=("node", "finished_at"), name="use_of_a_node"),
            # Both cover only unfinished evaluations, so they stay small among millions of rows.
            models.Index(
                fields=("profile", "-priority", "turn", "queued_at"), condition=_NOT_ENDED, name="turns_of_a_profile"
            ),
            models.Index(fields=("payer", "profile"), condition=_NOT_ENDED, name="waiting_of_a_payer"),
            models.Index(fields=("-queued_at", "-id"), name="evaluations_newest_first"),
            models.Index(fields=("verdict", "-finished_at"), name="evaluations_by_verdict"),
            models.Index(fields=("-queued_at",), condition=models.Q(has_alarms=True), name="evaluations_with_alarms"),
            models.Index(
                fields=("problem_revision", "profile", "finished_at"),
                condition=models.Q(state="finished", verdict="PASSED", mode="ranked"),
                name="passed_of_a_board",
            ),
            models.Index(
                fields=("problem_revision", "-queued_at"), condition=models.Q(mode="sweep"), name="sweeps_of_a_problem"
            ),
        )
        constraints = (
            models.UniqueConstraint(fields=("lease",), name="one_evaluation_per_lease"),
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
    def facts(self) -> dict[str, str]:
        return {
            "request_id": self.request_id,
            "submission": str(self.submission_id),
            "evaluation": str(self.pk),
        }

    @property
    def has_ended(self) -> bool:
        return self.state in State.ended()


class ProfileState(models.Model):
    """What the site knows of a profile's queue; one without a row moves.

    An operator decides `is_paused` and `note`, the dispatcher writes the rest. `turn` is that of the last evaluation
    that a slot took. `served_at` is when a slot could last take work, None where none ever could. `looked_at` is when
    the dispatcher last looked for such a slot.
    """

    profile = models.CharField(primary_key=True, max_length=40)
    is_paused = models.BooleanField(default=False, help_text="A paused queue takes submissions but judges none.")
    note = models.TextField(blank=True, help_text="Reason. Authors whose submissions wait see it.")
    turn = models.PositiveBigIntegerField(default=0, editable=False)
    served_at = models.DateTimeField(null=True, blank=True, editable=False)
    looked_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return self.profile


class GpuUse(models.Model):
    """The cost of one evaluation: reserved while it waits, charged when it ends.

    `organisation` is whose run it is of, None for a person's own submission. `account` is whose allowance it counts
    against: the author's, or that of the organisation's sponsor at that time. It is None where an operator had granted
    the organisation an allowance of its own. `at` is when it was reserved, and from the settling on when it ended.
    """

    organisation = models.ForeignKey(
        Organisation, null=True, blank=True, on_delete=models.PROTECT, related_name="gpu_uses"
    )
    account = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="gpu_uses"
    )
    evaluation = models.OneToOneField(Evaluation, on_delete=models.PROTECT, related_name="gpu_use")
    reserved_gpu_s = models.FloatField()
    used_gpu_s = models.FloatField(null=True, blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = "GPU use"
        verbose_name_plural = "GPU use"
        indexes = (
            models.Index(fields=("organisation", "at"), name="use_of_an_organisation"),
            models.Index(fields=("account", "at"), name="use_of_an_account"),
        )

    def __str__(self) -> str:
        whose = self.organisation_id if self.organisation_id is not None else self.account_id
        return f"{whose}: {self.used_gpu_s if self.used_gpu_s is not None else self.reserved_gpu_s} GPU-s"


class LimitScope(models.TextChoices):
    """Whom a limit is for. What names one account or organisation goes before what names many."""

    ACCOUNTS = "accounts", "Every account"
    NEW_ACCOUNTS = "new_accounts", "Every new account"
    ORGANISATIONS = "organisations", "Every organisation"
    ACCOUNT = "account", "One account"
    ORGANISATION = "organisation", "One organisation"


class AllowanceLimit(models.Model):
    """An operator's limit on a day's GPU time; without a row the settings decide.

    One row may be about all profiles together (`profile` empty) and others about one profile each: every one of them
    has to be kept. An empty figure limits nothing.
    """

    scope = models.CharField(max_length=20, choices=LimitScope.choices)
    account = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="allowance_limits"
    )
    organisation = models.ForeignKey(
        Organisation, null=True, blank=True, on_delete=models.CASCADE, related_name="allowance_limits"
    )
    profile = models.CharField(max_length=40, blank=True, help_text="Empty: all profiles together.")
    gpu_seconds_per_day = models.FloatField(
        null=True, blank=True, help_text="Seconds times GPUs in any 24 hours. 0 allows none; empty sets no limit."
    )
    queued_at_most = models.PositiveIntegerField(
        null=True, blank=True, help_text="Evaluations in the queue at a time. 0 allows none; empty sets no limit."
    )
    reason = models.CharField(
        max_length=300, blank=True, help_text="Shown to authors whose submissions the limit refuses."
    )

    class Meta:
        constraints = (
            # One for each way a row may name somebody: SQLite and PostgreSQL 14 take every null for another value.
            models.UniqueConstraint(
                fields=("scope", "profile"),
                condition=models.Q(account=None, organisation=None),
                name="one_limit_of_many",
            ),
            models.UniqueConstraint(fields=("account", "profile"), name="one_limit_of_an_account"),
            models.UniqueConstraint(fields=("organisation", "profile"), name="one_limit_of_an_organisation"),
            models.CheckConstraint(
                condition=models.Q(scope="account", account__isnull=False, organisation__isnull=True)
                | models.Q(scope="organisation", account__isnull=True, organisation__isnull=False)
                | models.Q(
                    scope__in=("accounts", "new_accounts", "organisations"),
                    account__isnull=True,
                    organisation__isnull=True,
                ),
                name="a_limit_names_whom_its_scope_names",
                violation_error_message="Choose the account or organisation that the scope names, and no other.",
            ),
        )

    def __str__(self) -> str:
        whose = self.account or self.organisation or self.get_scope_display()
        return f"{whose} on {self.profile or 'all profiles'}"


class Quarantine(models.Model):
    """A decision to remove an entry from all boards, with its public reason, and to restore it.

    Page and evidence stay, and rows are never deleted. In force while `lifted_at` is None. `by` is None for a rejudge.
    """

    submission = models.ForeignKey(Submission, on_delete=models.PROTECT, related_name="quarantines")
    reason = models.CharField(max_length=500, help_text="Public: shown on the entry's page and on its boards.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    lift_reason = models.CharField(max_length=500, blank=True, help_text="Public, like the reason.")

    class Meta:
        ordering = ("-at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("submission",), condition=models.Q(lifted_at=None), name="one_quarantine_in_force"
            ),
        )

    def __str__(self) -> str:
        return f"{self.submission_id}: {self.reason}"


class Flag(models.Model):
    """A reader's message to the operators that something is wrong with an entry. Only operators see it."""

    submission = models.ForeignKey(Submission, on_delete=models.CASCADE, related_name="flags")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="flags")
    reason = models.TextField()
    at = models.DateTimeField(default=timezone.now)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    outcome = models.CharField(
        max_length=500, blank=True, help_text="What operators decided. Shown to the person who flagged the entry."
    )

    class Meta:
        ordering = ("-at", "-id")
        indexes = (models.Index(fields=("by", "-at"), name="flags_of_a_reader"),)
        constraints = (
            models.UniqueConstraint(
                fields=("submission", "by"), condition=models.Q(resolved_at=None), name="one_open_flag_per_reader"
            ),
        )

    def __str__(self) -> str:
        return f"{self.submission_id}, flagged by {self.by}"


class Report(models.Model):
    """The judge's report on an evaluation, as it came. One per try: a retried failure of ours keeps its report."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.PROTECT, related_name="reports")
    attempt = models.PositiveSmallIntegerField()
    node_name = models.CharField(max_length=60)
    content = models.JSONField(help_text="evaluator.contract.EvaluationReport")
    error_log = models.TextField(
        blank=True, default="", help_text="Error output of the judge's own code. Only operators see it."
    )
    received_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("attempt",)
        constraints = (models.UniqueConstraint(fields=("evaluation", "attempt"), name="one_report_per_try"),)

    def __str__(self) -> str:
        return f"report on {self.evaluation_id}, try {self.attempt}"

    @property
    def report(self) -> EvaluationReport:
        return EvaluationReport.from_json(json.dumps(self.content))
