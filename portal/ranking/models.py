"""Standings, what is derived from them, and their order; all of it can be rebuilt from the evaluations.

Boards of profiles that are ranked by speed go by the lower end of the score's interval, higher first; the earlier
submission comes first when equal. On practice profiles two copies of one program differ by tens of percent, so a score
orders nothing there. Every entry is correct, and the earlier submission comes first, with its times shown as
indicative.

People go by the number of problems that they solved faster than the reference, then by the number solved, then by
who was there earlier.
"""

from datetime import datetime

from django.conf import settings
from django.db import models

from portal.catalog.size_times import SizeTime, from_stored
from portal.submissions.models import Evaluation


def is_better(score_low: float, submitted_at: datetime, *, than: tuple[float, datetime]) -> bool:
    """Whether an author's newer result replaces their standing `than` (lower end, time of submission)."""
    held_low, held_at = than
    return (-score_low, submitted_at) < (-held_low, held_at)


def board_order(*, is_ranked_by_speed: bool, size: str | None = None) -> tuple[str, ...]:
    """The columns of `Standing` by which a board is ordered, at one size or at all together."""
    low = "score_low" if size is None else f"low_{size}"
    return (f"-{low}", "submitted_at", "id") if is_ranked_by_speed else ("submitted_at", "id")


PEOPLE_ORDER = ("-faster", "-solved", "reached_at", "id")
"""The columns of `PersonStanding` by which people are ordered."""


BOARD = ("problem", "problem_revision", "profile", "score_rule")
"""What tells boards apart."""
BOARD_SIZES = ("base", "large")
"""The sizes by which a board can be ordered: those of profiles that time more than one."""


class Standing(models.Model):
    """An author's best accepted ranked evaluation per problem, problem revision, profile, backend and rule of scoring.

    Scores of two rules are never in one order: a board is of one rule, and `evaluator.contract.SCORE_RULE` is the
    current one.
    """

    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="standings")
    problem = models.SlugField(max_length=100)
    problem_revision = models.CharField(max_length=16)
    profile = models.CharField(max_length=40)
    score_rule = models.PositiveSmallIntegerField(help_text="The rule that computed the scores.")
    backend = models.CharField(max_length=20)
    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="standings")
    score = models.FloatField()
    score_low = models.FloatField()
    score_high = models.FloatField()
    submitted_at = models.DateTimeField()
    sizes = models.JSONField(default=list, help_text="portal.catalog.size_times.SizeTime, one per size.")
    low_base = models.FloatField(null=True, blank=True, help_text="Lower end of the interval at size base.")
    low_large = models.FloatField(null=True, blank=True, help_text="Lower end of the interval at size large.")
    primitives = models.JSONField(default=list, help_text="The primitives that the judge detected.")

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("author", "problem", "problem_revision", "profile", "backend", "score_rule"),
                name="one_standing_per_author",
            ),
        )
        indexes = (
            models.Index(fields=(*BOARD, "-score_low", "submitted_at", "id"), name="board_by_speed"),
            models.Index(fields=(*BOARD, "submitted_at", "id"), name="board_by_time"),
            *(
                models.Index(
                    fields=(*BOARD, f"-low_{size}", "submitted_at", "id"),
                    name=f"board_at_{size}",
                    condition=models.Q(**{f"low_{size}__isnull": False}),
                )
                for size in BOARD_SIZES
            ),
            models.Index(fields=("-submitted_at", "-id"), name="standings_newest_first"),
            models.Index(fields=("author", "-submitted_at", "-id"), name="entries_of_an_author"),
        )

    def __str__(self) -> str:
        return f"{self.author} on {self.problem} ({self.profile}, {self.backend})"

    @property
    def size_times(self) -> tuple[SizeTime, ...]:
        return from_stored(self.sizes)


class Board(models.Model):
    """A board of one rule that has or had entries: how many, and the score that a record has to beat."""

    problem = models.SlugField(max_length=100)
    problem_revision = models.CharField(max_length=16)
    profile = models.CharField(max_length=40)
    score_rule = models.PositiveSmallIntegerField(help_text="The rule that computed the scores.")
    entries = models.PositiveIntegerField(default=0, help_text="Number of standings of authors whose account is open.")
    record_low = models.FloatField(null=True, blank=True, help_text="Lower end of the record's interval.")

    class Meta:
        constraints = (models.UniqueConstraint(fields=BOARD, name="one_row_per_board"),)

    def __str__(self) -> str:
        return f"{self.problem} on {self.profile}"


class Record(models.Model):
    """An evaluation that took the first place of its board when it was accepted.

    The first entry of a board is one (`previous_low` is None). Practice boards do not order by speed, so they have no
    other.
    """

    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="records")
    evaluation = models.OneToOneField(Evaluation, on_delete=models.CASCADE, related_name="record")
    problem = models.SlugField(max_length=100)
    problem_revision = models.CharField(max_length=16)
    profile = models.CharField(max_length=40)
    score_rule = models.PositiveSmallIntegerField(help_text="The rule that computed the scores.")
    backend = models.CharField(max_length=20)
    score = models.FloatField()
    score_low = models.FloatField()
    score_high = models.FloatField()
    previous_low = models.FloatField(null=True, blank=True)
    reached_at = models.DateTimeField()

    class Meta:
        indexes = (
            models.Index(fields=("-reached_at", "-id"), name="records_newest_first"),
            models.Index(fields=("problem", "problem_revision", "profile", "reached_at"), name="records_of_a_board"),
        )

    def __str__(self) -> str:
        return f"record on {self.problem} ({self.profile}) by {self.author}"


class PersonStanding(models.Model):
    """What one author has reached on one profile over all problems at their current revisions, by the current rule."""

    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="person_standings")
    profile = models.CharField(max_length=40)
    solved = models.PositiveSmallIntegerField(help_text="Number of problems with an accepted entry.")
    faster = models.PositiveSmallIntegerField(
        help_text="Number of problems solved significantly faster than the reference."
    )
    mean_score = models.FloatField(help_text="Geometric mean of the best speedup per problem solved.")
    reached_at = models.DateTimeField(help_text="When the last of these entries was submitted.")
    catalog_digest = models.CharField(
        max_length=16, help_text="Digest of the score rule and the problem revisions behind this row."
    )

    class Meta:
        constraints = (models.UniqueConstraint(fields=("author", "profile"), name="one_row_per_person_and_profile"),)
        indexes = (
            models.Index(fields=("profile", "-faster", "-solved", "reached_at", "id"), name="people_by_profile"),
        )

    def __str__(self) -> str:
        return f"{self.author} on {self.profile}"
