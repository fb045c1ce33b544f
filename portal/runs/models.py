"""Models, their runs and attempts; their events, and the GPU time of judging them.

A run is append-only from its first attempt on: nothing in `Attempt` that came from the vendor is ever changed, and the
result fields follow the attempt's newest finished evaluation.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from evaluator.contract import Backend, Mode, Verdict
from portal.accounts.models import Organisation
from portal.core.hooks import Hook
from portal.submissions.models import Evaluation, RecordedElsewhere, State, Submission


class LanguageModel(models.Model):
    """A model in one version. `slug` is its address."""

    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="models")
    slug = models.SlugField(max_length=120, unique=True)
    name = models.CharField(max_length=80)
    version = models.CharField(max_length=40, blank=True)
    provider = models.CharField(max_length=80, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = "model"
        ordering = ("slug",)
        constraints = (
            models.UniqueConstraint(fields=("organisation", "name", "version"), name="one_model_per_version"),
        )

    def __str__(self) -> str:
        return self.title

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}".strip()


ATTEMPT_MODES = tuple(mode.value for mode in Mode if mode not in (Mode.SWEEP, Mode.PUBLISHED))
"""An attempt answers a task once; for which sizes it is good is a question about an entry."""


class RunMode(models.TextChoices):
    SINGLE_SHOT = "single_shot", "Single shot"
    BEST_OF_K = "best_of_k", "Best of k"
    AGENTIC = "agentic", "Agentic"


class RunState(models.TextChoices):
    DRAFT = "draft", "Draft"
    PUBLISHED = "published", "Published"


class Verification(models.TextChoices):
    """Who judged a run's programs, or how an operator has then checked how the run came about.

    Tokens and cost are always as declared.
    """

    JUDGED_HERE = "judged_here", "Judged here"
    RECORDED = "recorded", "Judged elsewhere"
    RE_RUN = "re_run", "Re-run"
    AUDITED = "audited", "Audited"


class Run(RecordedElsewhere):
    """One model's attempts at the problems on one profile, in one backend."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="runs")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="runs")
    mode = models.CharField(max_length=12, choices=RunMode.choices)
    backend = models.CharField(max_length=20, choices=[(backend.value, backend.value) for backend in Backend])
    profile = models.CharField(max_length=40)
    k = models.PositiveSmallIntegerField(default=1, help_text="Number of samples per problem that the run declares.")
    sampling = models.JSONField(default=dict, blank=True)
    prompt_version = models.CharField(max_length=80, blank=True)
    cost_usd = models.FloatField(null=True, blank=True, help_text="Cost of the whole run in US dollars, as declared.")
    notes = models.TextField(blank=True)
    idempotency_key = models.CharField(max_length=100, null=True, blank=True)
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.DRAFT)
    are_sources_public = models.BooleanField(default=False)
    verification = models.CharField(
        max_length=14, choices=Verification.choices, default=Verification.JUDGED_HERE, editable=False
    )
    is_quarantined = models.BooleanField(default=False, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    published_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.UniqueConstraint(fields=("created_by", "idempotency_key"), name="one_run_per_idempotency_key"),
        )
        indexes = (models.Index(fields=("state", "profile"), name="runs_of_a_board"),)

    def __str__(self) -> str:
        return f"{self.model}, {self.get_mode_display().lower()}, {self.profile}"

    @property
    def is_published(self) -> bool:
        return self.state == RunState.PUBLISHED


class AttemptState(models.TextChoices):
    PENDING = "pending", "Pending"
    ENDED = "ended", "Ended"


class Attempt(models.Model):
    """What a model wrote for one problem in one sample and step.

    `submission` is None if the text alone decided. `evaluation` is the one that the result fields show: the
    newest that finished on the run's profile in the attempt's mode, or the first while none has.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="attempts")
    key = models.CharField(max_length=150)
    problem = models.SlugField(max_length=100)
    sample = models.PositiveSmallIntegerField(default=0)
    step = models.PositiveSmallIntegerField(default=0)
    mode = models.CharField(max_length=10, choices=[(mode, mode) for mode in ATTEMPT_MODES])
    backend = models.CharField(
        max_length=20,
        choices=[(backend.value, backend.value) for backend in Backend],
        help_text="The backend that it is judged as. A model may answer in another one than its run requests.",
    )
    source_digest = models.CharField(max_length=64)
    submission = models.OneToOneField(
        Submission, null=True, blank=True, on_delete=models.PROTECT, related_name="attempt"
    )
    evaluation = models.ForeignKey(Evaluation, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    cost_usd = models.FloatField(null=True, blank=True)
    seconds = models.FloatField(null=True, blank=True, help_text="Seconds that the model took.")
    has_trajectory = models.BooleanField(default=False)
    state = models.CharField(max_length=8, choices=AttemptState.choices, default=AttemptState.PENDING)
    verdict = models.CharField(max_length=30, blank=True, choices=[(v.value, v.value) for v in Verdict])
    message = models.TextField(blank=True)
    score = models.FloatField(null=True, blank=True)
    score_low = models.FloatField(null=True, blank=True)
    score_high = models.FloatField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("problem", "sample", "step")
        constraints = (
            models.UniqueConstraint(fields=("run", "key"), name="one_attempt_per_key"),
            models.UniqueConstraint(fields=("run", "problem", "sample", "step"), name="one_attempt_per_step"),
        )
        indexes = (models.Index(fields=("run", "state"), name="pending_of_a_run"),)

    def __str__(self) -> str:
        return f"{self.problem}/{self.sample}/{self.step}"

    @staticmethod
    def result_of(evaluation: Evaluation) -> dict[str, Any]:
        """The columns by which an attempt shows an evaluation that has ended."""
        return {
            "evaluation": evaluation,
            "state": AttemptState.ENDED,
            "verdict": evaluation.verdict,
            "message": evaluation.message or ("Cancelled." if evaluation.state == State.CANCELLED else ""),
            "score": evaluation.score,
            "score_low": evaluation.score_low,
            "score_high": evaluation.score_high,
            "ended_at": evaluation.finished_at,
        }


class Trajectory(models.Model):
    """What an agent did on the way to an attempt, without what looks like a credential."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, primary_key=True, related_name="trajectory")
    text = models.TextField()

    class Meta:
        verbose_name_plural = "trajectories"

    def __str__(self) -> str:
        return f"trajectory of {self.attempt_id}"


class EventKind(models.TextChoices):
    ATTEMPT_ENDED = "attempt.ended", "An attempt has its result"
    RUN_COMPLETED = "run.completed", "Every attempt has its result"
    RUN_PUBLISHED = "run.published", "The run was published"


class RunEvent(models.Model):
    """Something that happened to a run. Its number is the feed's cursor: it grows in the order of commits per run."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    kind = models.CharField(max_length=20, choices=EventKind.choices)
    attempt = models.ForeignKey(Attempt, null=True, blank=True, on_delete=models.CASCADE, related_name="events")
    verdict = models.CharField(max_length=30, blank=True)
    message = models.TextField(blank=True)
    score = models.FloatField(null=True, blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("id",)
        indexes = (models.Index(fields=("run", "id"), name="feed_of_a_run"),)

    def __str__(self) -> str:
        return f"{self.kind} of {self.run_id}"

    @property
    def score_low(self) -> float | None:
        """The lower end of the score's interval; None once the attempt was judged again."""
        return self.attempt.score_low if self.attempt and self.attempt.score == self.score else None

    @property
    def score_high(self) -> float | None:
        """The upper end; None once the attempt was judged again."""
        return self.attempt.score_high if self.attempt and self.attempt.score == self.score else None


class DecisionKind(models.TextChoices):
    RE_RUN = "re_run", "Verified by a re-run"
    AUDITED = "audited", "Audited"
    WITHDRAWN = "withdrawn", "Verification withdrawn"
    QUARANTINED = "quarantined", "Quarantined"
    RELEASED = "released", "Released from quarantine"


class Decision(models.Model):
    """An operator's decision on a run with its reason: evidence, never changed or deleted."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="decisions")
    kind = models.CharField(max_length=14, choices=DecisionKind.choices)
    reason = models.TextField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="decisions")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-at",)

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.run}"


@dataclass(frozen=True, kw_only=True)
class EventsWritten:
    """Events that were written of one run, in the order of their numbers."""

    run: Run
    events: tuple[RunEvent, ...]


events_written: Hook[EventsWritten] = Hook()
"""Sent inside the transaction that writes the events, under the lock of the run's row."""


def record(run: Run, events: Sequence[RunEvent]) -> None:
    """Store events of a run whose row the caller has locked, and send `events_written`.

    So the numbers of its events grow in the order in which they become visible, and a feed's cursor passes none by.

    Adds `run.completed` if no attempt is pending any more.
    """
    written = list(RunEvent.objects.bulk_create(events))
    has_ended = any(event.kind == EventKind.ATTEMPT_ENDED for event in events)
    if has_ended and not run.attempts.filter(state=AttemptState.PENDING).exists():
        written.append(RunEvent.objects.create(run=run, kind=EventKind.RUN_COMPLETED))
    events_written.send(EventsWritten(run=run, events=tuple(written)))
