"""The one row per problem that an operator may change. The problems themselves are read from `problems.registry`."""

from django.db import models


class ProblemSwitch(models.Model):
    """Whether a problem takes submissions. A problem without a row is open."""

    slug = models.SlugField(primary_key=True, max_length=100)
    is_open = models.BooleanField(default=True, help_text="Closed problems are shown but take no submissions.")
    is_paused = models.BooleanField(default=False, help_text="Paused problems take submissions but are not judged.")
    note = models.TextField(blank=True, help_text="Shown on the problem's page.")

    class Meta:
        verbose_name_plural = "problem switches"

    def __str__(self) -> str:
        return self.slug
