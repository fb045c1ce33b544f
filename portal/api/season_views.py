"""Seasons: which there are, and one with its standings."""

from functools import cached_property
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from portal.api.base import Resource, operation
from portal.api.fields import AddressField, CopiedFields, PageField, shows
from portal.seasons import queries
from portal.seasons.models import OpenedSources, Phase, Season
from portal.seasons.queries import StandingRow
from portal.seasons.scoring import Result


@shows(Season, "slug url page title profile problems opens_at closes_at announced_closes_at phase seconds_left example")
class SeasonBrief(CopiedFields):
    """A season as a list shows it.

    Attributes:
        announced_closes_at: The end as first announced.
        example: For an example season without competitors: what it shows. Empty for others.
    """

    url = AddressField("api:season", lookup_url_kwarg="slug", lookup_field="slug")
    page = PageField("/seasons/{0}/")
    problems = serializers.ListField(child=serializers.CharField())
    phase = serializers.SerializerMethodField()
    seconds_left = serializers.SerializerMethodField(help_text="Until it closes; 0 afterwards.")

    @extend_schema_field({"type": "string", "enum": Phase.values})
    def get_phase(self, season: Season) -> str:
        """Where it is."""
        return season.phase(timezone.now()).value

    def get_seconds_left(self, season: Season) -> float:
        return max(0.0, (season.closes_at - timezone.now()).total_seconds())


@shows(Result, "problem score score_low=low score_high=high counts=speed is_rejudged author entered_at submission")
class SeasonResultOutput(CopiedFields):
    """A team's best entry for a problem.

    Attributes:
        counts: What counts in the team's score.
        is_rejudged: Whether it was judged again after the end.
    """

    submission = serializers.SerializerMethodField(help_text="Null while its source is private.")

    @extend_schema_field({"oneOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]})
    def get_submission(self, result: Any) -> str | None:
        return str(result.submission_id) if result.is_source_public else None


@shows(
    StandingRow,
    "place=line.place team=team.name organisation=team.organisation.slug members score=line.score "
    "solved=line.solved results",
)
class SeasonTeamOutput(CopiedFields):
    """A team's line.

    Attributes:
        organisation: Its short name; null for one person alone.
        score: Geometric mean over the season's problems, 1 for those not solved faster.
    """

    results = serializers.SerializerMethodField(help_text="The team's best entries, in the order of the problems.")

    @extend_schema_field(SeasonResultOutput(many=True))
    def get_results(self, row: StandingRow) -> Any:
        return SeasonResultOutput([result for result in row.line.results if result is not None], many=True).data


class SeasonDetail(SeasonBrief):
    """A season with rules and standings."""

    rules = serializers.CharField(allow_blank=True, help_text="Markdown: rules beyond those of every season.")
    is_ranked_by_speed = serializers.BooleanField(help_text="If false, the number of problems solved decides.")
    rejudged_per_problem = serializers.IntegerField()
    largest_team = serializers.IntegerField()
    opened_sources = serializers.ChoiceField(choices=OpenedSources.values)
    final_at = serializers.DateTimeField(allow_null=True)
    entries = serializers.SerializerMethodField(help_text="How many count.")
    entries_pending = serializers.SerializerMethodField(help_text="Not judged yet.")
    standings = serializers.SerializerMethodField()

    @cached_property
    def counted(self) -> queries.Counts:
        assert isinstance(self.instance, Season)
        return queries.counts(self.instance)

    def get_entries(self, _season: Season) -> int:
        return self.counted.entries

    def get_entries_pending(self, _season: Season) -> int:
        return self.counted.pending + self.counted.rejudge_pending

    @extend_schema_field(SeasonTeamOutput(many=True))
    def get_standings(self, season: Season) -> Any:
        """Best first."""
        rows: Any = queries.standings(season)
        return SeasonTeamOutput(rows, many=True).data


class Seasons(Resource):
    tag = "Seasons"

    @operation("listSeasons", "List the seasons", SeasonBrief, many=True)
    def list(self, _request: Request) -> Any:
        """Every season, the one that closes last first."""
        return Season.objects.all()

    @operation("readSeason", "Read a season", SeasonDetail)
    def retrieve(self, _request: Request, slug: str) -> Season:
        """One season with its rules and standings as they are now."""
        return queries.get_season(slug)


class SeasonEntryOutput(serializers.Serializer[Any]):
    """What a submission is to a season that its author takes part in."""

    season = serializers.CharField(source="season.slug")
    team = serializers.CharField(source="team.name")
    evaluation = serializers.UUIDField(source="evaluation_id")
    counts = serializers.SerializerMethodField()
    message = serializers.CharField(source="refused", allow_blank=True, help_text="Why it does not count.")
    page = PageField("/seasons/{0.season}/")

    def get_counts(self, entry: Any) -> bool:
        """Whether it does."""
        return not entry.refused
