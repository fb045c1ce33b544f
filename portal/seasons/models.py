"""Seasons, the data that define them, the teams in them, and what their members have submitted."""

import secrets
from datetime import datetime
from typing import Annotated, Any

import msgspec
from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone

from evaluator.contract import SCORE_RULE, Mode
from evaluator.hardware import profiles
from portal.accounts.models import Organisation
from portal.catalog.queries import get_profile
from portal.core.errors import Refusal, check_choice
from portal.submissions.models import Evaluation
from problems import registry


class OpenedSources(models.TextChoices):
    """Which sources everybody may read once the final standings are out."""

    NONE = "none", "None: each author decides"
    STANDINGS = "standings", "Those that the final standings rest on"
    ALL = "all", "Every entry's"
    AT_ONCE = "at_once", "Every entry's, from the moment it is handed in"


class Access(models.TextChoices):
    """Who finds a season and takes part; its owners and participants always see it."""

    EVERYBODY = "everybody", "Everybody"
    LINK = "link", "Whoever has its link"
    CODE = "code", "Whoever has its code"


class Counted(models.TextChoices):
    SCORE = "score", "Speed, where it is measured"
    CORRECT = "correct", "Problems solved, then time"


class Phase(models.TextChoices):
    DRAFT = "draft", "Draft: only its owners see it"
    UPCOMING = "upcoming", "Not open yet"
    OPEN = "open", "Open"
    CLOSED = "closed", "Closed: the last entries are judged"
    REJUDGING = "rejudging", "Closed: the leaders are judged again"
    FINAL = "final", "Final"


def new_code() -> str:
    """A code that nobody guesses."""
    return secrets.token_urlsafe(9)


class Season(models.Model):
    """Problems on one profile between two moments. What its rules say is fixed when it opens.

    `organisation` is whose owners run it, None where operators do. `closes_at` may be moved to a later time while it is
    open; `announced_closes_at` is the end first announced. `published_at` is None for a draft. `revisions` are those of
    the problems when it was last defined. `code` lets people in where not everybody is.
    """

    organisation = models.ForeignKey(
        Organisation, null=True, blank=True, on_delete=models.PROTECT, related_name="seasons"
    )
    slug = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=120)
    profile = models.CharField(max_length=40)
    problems = models.JSONField(help_text="Slugs of problems, in the order of the page.")
    opens_at = models.DateTimeField()
    closes_at = models.DateTimeField()
    announced_closes_at = models.DateTimeField(editable=False)
    rules = models.TextField(
        blank=True, help_text="Markdown. Rules of this season, beside those that every season has."
    )
    rejudged_per_problem = models.PositiveSmallIntegerField(
        default=5, help_text="Number of teams per problem whose entries are judged again."
    )
    largest_team = models.PositiveSmallIntegerField(default=5)
    opened_sources = models.CharField(max_length=10, choices=OpenedSources.choices, default=OpenedSources.STANDINGS)
    access = models.CharField(max_length=10, choices=Access.choices, default=Access.EVERYBODY)
    counts = models.CharField(max_length=10, choices=Counted.choices, default=Counted.SCORE)
    hides_board = models.BooleanField(default=False)
    owners_read = models.BooleanField(default=False, help_text="Whether its owners read each entry's source at once.")
    code = models.CharField(max_length=20, unique=True, default=new_code, editable=False)
    revisions = models.JSONField(default=dict, editable=False)
    published_at = models.DateTimeField(null=True, editable=False)
    score_rule = models.PositiveSmallIntegerField(default=SCORE_RULE, editable=False)
    rejudge_at = models.DateTimeField(null=True, blank=True, editable=False)
    final_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ("-closes_at", "slug")

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse("seasons:season", args=[self.slug])

    @property
    def is_ranked_by_speed(self) -> bool:
        """Whether it orders by speed, which its profile has to measure; elsewhere only what was solved counts."""
        return self.counts == Counted.SCORE and profiles.get(self.profile).is_ranked_by_speed

    def phase(self, now: datetime) -> Phase:
        if self.published_at is None:
            return Phase.DRAFT
        if self.final_at is not None:
            return Phase.FINAL
        if self.rejudge_at is not None:
            return Phase.REJUDGING
        if now >= self.closes_at:
            return Phase.CLOSED
        return Phase.OPEN if now >= self.opens_at else Phase.UPCOMING


class Team(models.Model):
    """Who competes together: some members of an organisation, or one person alone. `name` is what the page shows."""

    season = models.ForeignKey(Season, on_delete=models.CASCADE, related_name="teams")
    organisation = models.ForeignKey(
        Organisation, null=True, blank=True, on_delete=models.PROTECT, related_name="season_teams"
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="own_season_teams"
    )
    name = models.CharField(max_length=150)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("name", "id")
        constraints = (
            models.UniqueConstraint(fields=("season", "organisation"), name="one_team_per_organisation_and_season"),
            models.UniqueConstraint(fields=("season", "person"), name="one_team_per_person_alone_and_season"),
        )

    def __str__(self) -> str:
        return f"{self.name} in {self.season_id}"


class TeamMember(models.Model):
    """A person's membership in a team of a season: one team each."""

    season = models.ForeignKey(Season, on_delete=models.CASCADE, related_name="members")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="season_memberships")
    joined_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("joined_at", "id")
        constraints = (models.UniqueConstraint(fields=("season", "user"), name="one_team_per_person_and_season"),)

    def __str__(self) -> str:
        return f"{self.user} for {self.team}"


class Entry(models.Model):
    """A ranked evaluation that a member of a team asked for on a problem of the season.

    `refused` says why it does not count for the season, empty where it does. `final` judges it once more after the end.
    """

    season = models.ForeignKey(Season, on_delete=models.CASCADE, related_name="entries")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="entries")
    problem = models.SlugField(max_length=100)
    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="season_entries")
    final = models.ForeignKey(
        Evaluation, null=True, blank=True, on_delete=models.SET_NULL, related_name="final_season_entries"
    )
    entered_at = models.DateTimeField()
    refused = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ("entered_at", "id")
        verbose_name_plural = "entries"
        constraints = (
            models.UniqueConstraint(fields=("season", "evaluation"), name="one_entry_per_evaluation_and_season"),
        )
        indexes = (models.Index(fields=("season", "entered_at"), name="entries_of_a_season"),)

    def __str__(self) -> str:
        return f"{self.problem} by {self.team_id} in {self.season_id}"


TAKEN = ("new", "join")
"""Words that stand where the addresses of seasons have their names."""
_MOST = 32767
_Slug = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?$")]
_Title = Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]


class Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an owner or operator says of a season; `portal.seasons.models.Season` explains the fields."""

    slug: _Slug
    title: _Title
    profile: str
    problems: tuple[str, ...]
    opens_at: _Moment
    closes_at: _Moment
    rules: str = ""
    rejudged_per_problem: _Count = 5
    largest_team: _Count = 5
    opened_sources: str = OpenedSources.STANDINGS.value
    organisation: str = ""
    access: str = Access.EVERYBODY.value
    counts: str = Counted.SCORE.value
    hides_board: bool = False
    owners_read: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        """What a season's row has of it."""
        return msgspec.structs.asdict(self) | {"problems": list(self.problems)}


def definition_of(values: Any) -> Definition:
    """The definition that these values are, checked; raises Refusal."""
    try:
        definition = msgspec.convert(values, type=Definition)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$.") or "season"
        said = str(values.get(field, "")) if isinstance(values, dict) else ""
        what = "Letters a to z, digits and hyphens are allowed, no hyphen at an end" if field == "slug" else what
        remedy = "docs/seasons.md describes every field with an example."
        raise Refusal(field, said, f"{what}.", remedy) from error
    check(definition)
    return definition


def check(definition: Definition) -> None:
    """Refuse a season that could not take place."""
    if definition.slug in TAKEN:
        raise Refusal("slug", definition.slug, "This address is the site's own.", "Choose another short name.")
    profile = get_profile(definition.profile)
    if not profile.measures_time and definition.counts == Counted.SCORE:
        message = f"{profile.name} times nothing, because its ranks share a GPU: there is no score to count."
        raise Refusal("counts", definition.counts, message, "Let correct count, or choose another profile.")
    _check_problems(definition, profile)
    if definition.closes_at <= definition.opens_at:
        raise Refusal("closes_at", str(definition.closes_at), "It closes before it opens.", "Choose a later moment.")
    for field, known in (("opened_sources", OpenedSources), ("access", Access), ("counts", Counted)):
        check_choice(field, getattr(definition, field), known.values, noun="choice")


def _check_problems(definition: Definition, profile: profiles.Profile) -> None:
    known = {problem.slug: problem for problem in registry.problems()}
    if not definition.problems:
        raise Refusal("problems", "", "The list of problems is empty.", "Name at least one problem.")
    for slug in definition.problems:
        if slug not in known:
            raise Refusal("problems", slug, f"There is no problem {slug!r}.", "`pkb problems` lists them.")
        if definition.problems.count(slug) > 1:
            raise Refusal("problems", slug, f"{slug!r} is in the list twice.", "Name each problem once.")
        reason = known[slug].refuses(profile.world_size, profile.sizes[Mode.RANKED])
        if reason is not None:
            message = f"{slug} does not run on {profile.name}: it {reason}."
            raise Refusal("problems", slug, message, "Leave it out, or choose another profile.")
