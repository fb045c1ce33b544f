"""Standings: every author's best accepted evaluation, derived and rebuildable from the evaluations."""

from django.conf import settings
from django.db import models

from portal.submissions.models import Evaluation


class Standing(models.Model):
    """An author's best accepted ranked evaluation per problem, problem revision, profile and backend."""

    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="standings")
    problem = models.SlugField(max_length=100)
    problem_revision = models.CharField(max_length=16)
    profile = models.CharField(max_length=40)
    backend = models.CharField(max_length=20)
    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="standings")
    score = models.FloatField()
    score_low = models.FloatField()
    score_high = models.FloatField()
    submitted_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("author", "problem", "problem_revision", "profile", "backend"), name="one_standing_per_author"
            ),
        )
        indexes = (
            models.Index(
                fields=("problem", "problem_revision", "profile", "-score_low", "submitted_at"), name="board_order"
            ),
        )

    def __str__(self) -> str:
        return f"{self.author} on {self.problem} ({self.profile}, {self.backend})"
