"""Seasons: which there are, one with its standings and people, making and running one, and joining it."""

from functools import cached_property
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from portal.accounts.identity import signed_in
from portal.accounts.models import TokenScope
from portal.accounts.organisations import get_organisation
from portal.api.base import Resource, operation
from portal.api.fields import AddressField, CopiedFields, PageField, shows
from portal.api.inputs import Choice, ProfileName, Query, Strict, Text, Whole
from portal.seasons import actions, entering, queries
from portal.seasons.definition import definition_of
from portal.seasons.models import Access, Counted, OpenedSources, Phase, Season
from portal.seasons.queries import StandingRow
from portal.seasons.scoring import Result


@shows(Season, "slug url page title profile problems opens_at closes_at announced_closes_at phase seconds_left")
class SeasonBrief(CopiedFields):
    """A season as a list shows it.

    Attributes:
        announced_closes_at: The end as first announced.
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
    sources_read_by = serializers.SerializerMethodField(help_text="Who reads participants' sources, and when.")
    organisation = serializers.CharField(
        source="organisation.slug", default=None, allow_null=True, help_text="Whose owners run it; null for operators."
    )
    access = serializers.ChoiceField(choices=Access.values)
    counts = serializers.ChoiceField(choices=Counted.values)
    hides_board = serializers.BooleanField(help_text="Whether others' results are shown only after the end.")
    owners_read = serializers.BooleanField(help_text="Whether its owners read each entry's source at once.")
    code = serializers.SerializerMethodField(help_text="What participants need to join; null unless you run it.")
    final_at = serializers.DateTimeField(allow_null=True)
    changed_problems = serializers.SerializerMethodField(
        help_text="Those with another revision than when it was published."
    )
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

    def get_sources_read_by(self, season: Season) -> str:
        return queries.readers(season)

    @extend_schema_field({"type": "array", "items": {"type": "string"}})
    def get_changed_problems(self, season: Season) -> list[str]:
        """Entries from before such a change were judged by the problem as it was, until leaders are judged again."""
        return queries.changed_problems(season, timezone.now())

    def get_code(self, season: Season) -> str | None:
        return season.code if queries.runs(season, self.context["request"].user) else None

    @extend_schema_field(SeasonTeamOutput(many=True))
    def get_standings(self, season: Season) -> Any:
        """Best first; empty as long as the board is not shown."""
        shown = queries.shows_board(season, self.context["request"].user, timezone.now())
        rows: Any = queries.standings(season) if shown else ()
        return SeasonTeamOutput(rows, many=True).data


class SeasonInput(Strict):
    """A season. Whoever runs it changes it by sending it again."""

    slug = Text(max_length=60, help_text="Its address is /seasons/SLUG/.")
    title = Text(max_length=120)
    organisation = Text(max_length=60, required=False, help_text="Whose owners run it. Operators may leave it out.")
    profile = ProfileName()
    problems = serializers.ListField(child=Text(max_length=100), max_length=200, help_text="Slugs in your order.")
    opens_at = Text(max_length=40, help_text="With its offset, such as 2027-03-01T09:00:00+01:00.")
    closes_at = Text(max_length=40)
    rules = Text(max_length=20_000, required=False, allow_blank=True, help_text="Markdown.")
    rejudged_per_problem = Whole(min_value=1, max_value=1000, required=False)
    largest_team = Whole(min_value=1, max_value=1000, required=False)
    opened_sources = Choice(choices=OpenedSources.values, required=False)
    access = Choice(choices=Access.values, required=False)
    counts = Choice(choices=Counted.values, required=False)
    hides_board = serializers.BooleanField(required=False)
    owners_read = serializers.BooleanField(required=False, help_text="Fixed once somebody has joined.")


class SeasonStepInput(Strict):
    """What to do with a season as it is; a new one is a draft until it is published or opened."""

    step = Choice(choices=tuple(actions.STEPS))


class SeasonJoinInput(Strict):
    """How to take part."""

    code = Text(max_length=20, default="", allow_blank=True, help_text="The season's, unless everybody may join.")
    organisation = Text(max_length=60, required=False, help_text="For the team of this organisation; else alone.")


class SeasonQuery(Query):
    """With which code."""

    code = Text(max_length=20, default="", help_text="The season's, unless everybody sees it.")


class Seasons(Resource):
    tag = "Seasons"
    write_scope = TokenScope.RUNS_WRITE

    @operation("listSeasons", "List the seasons", SeasonBrief, many=True)
    def list(self, request: Request) -> Any:
        """Those for everybody, and those that the caller runs or takes part in; the one that closes last first."""
        return queries.visible(request.user)

    @operation("defineSeason", "Define or change a season", SeasonDetail, body=SeasonInput, refuses=(403, 404, 409))
    def create(self, request: Request) -> Season:
        """A draft of a season, or the change of one that the caller runs."""
        now = timezone.now()
        return actions.define(definition_of(self.body()), by=signed_in(request), now=now, is_draft=True)

    @operation("readSeason", "Read a season", SeasonDetail, query=SeasonQuery)
    def retrieve(self, request: Request, slug: str) -> Season:
        """One season with its rules and standings as they are now."""
        return queries.get_season(slug, request.user, code=self.query["code"])

    @operation(
        "takeSeasonStep", "Publish, open, end or finish a season", status=204, body=SeasonStepInput, refuses=(403, 409)
    )
    def step(self, request: Request, slug: str) -> None:
        """Take the next step of a season that the caller runs; `delete` is for drafts."""
        season = queries.get_season(slug, signed_in(request))
        queries.require_runs(season, signed_in(request))
        actions.take(season, self.body()["step"], by=signed_in(request), now=timezone.now())


class SeasonParts(Resource):
    """Taking part in seasons."""

    tag = "Seasons"
    write_scope = TokenScope.SUBMIT

    @operation("joinSeason", "Join a season", status=204, body=SeasonJoinInput, refuses=(403, 409))
    def create(self, request: Request, slug: str) -> None:
        """Take part, alone or for an organisation; `sources_read_by` of the season says who then reads sources."""
        body, user = self.body(), signed_in(request)
        season = queries.get_season(slug, user, code=body["code"])
        organisation = get_organisation(user, body["organisation"]) if body.get("organisation") else None
        entering.enter(season, user, organisation=organisation, now=timezone.now(), code=body["code"])


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
