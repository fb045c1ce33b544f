"""Seasons: which there are, one with its standings and people, making and running one, and joining it."""

from typing import Any, cast

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from portal.accounts.identity import signed_in
from portal.accounts.models import TokenScope
from portal.accounts.organisations import get_organisation
from portal.api.base import Resource, operation
from portal.api.fields import CopiedFields, Made, address, page, shows
from portal.api.inputs import Choice, ProfileName, Query, Strict, Text, Whole
from portal.seasons import actions, models, queries
from portal.seasons.scoring import Result


@shows(models.Season, "slug url page title profile problems opens_at closes_at announced_closes_at phase seconds_left")
class SeasonBrief(CopiedFields):
    """A season as a list shows it.

    Attributes:
        announced_closes_at: The end as first announced.
    """

    url = address("api:season", slug="slug")
    page = page("/seasons/{0}/")
    problems = serializers.ListField(child=serializers.CharField())
    phase = Made(lambda season, _: season.phase(timezone.now()).value, {"type": "string", "enum": models.Phase.values})
    seconds_left = Made(
        lambda season, _: max(0.0, (season.closes_at - timezone.now()).total_seconds()),
        float,
        help_text="Until it closes; 0 afterwards.",
    )


@shows(Result, "problem score score_low=low score_high=high counts=speed is_rejudged author entered_at submission")
class SeasonResultOutput(CopiedFields):
    """A team's best entry for a problem.

    Attributes:
        counts: What counts in the team's score.
        is_rejudged: Whether it was judged again after the end.
    """

    submission = Made(
        lambda result, _: str(result.submission_id) if result.is_source_public else None,
        {"oneOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]},
        help_text="Null while its source is private.",
    )


@shows(
    queries.StandingRow,
    "place=line.place team=team.name organisation=team.organisation.slug members score=line.score "
    "solved=line.solved results",
)
class SeasonTeamOutput(CopiedFields):
    """A team's line.

    Attributes:
        organisation: Its short name; null for one person alone.
        score: Geometric mean over the season's problems, 1 for those not solved faster.
    """

    results = Made(
        lambda row, _: SeasonResultOutput(filter(None, row.line.results), many=True).data,
        SeasonResultOutput(many=True),
        help_text="The team's best entries, in the order of the problems.",
    )


@shows(
    models.Season,
    "rules is_ranked_by_speed rejudged_per_problem largest_team opened_sources sources_read_by organisation access "
    "counts hides_board owners_read code final_at changed_problems entries entries_pending standings",
)
class SeasonDetail(SeasonBrief):
    """A season with rules and standings.

    Attributes:
        rules: Markdown: rules beyond those of every season.
        is_ranked_by_speed: If false, the number of problems solved decides.
        hides_board: Whether others' results are shown only after the end.
        owners_read: Whether its owners read each entry's source at once.
    """

    sources_read_by = Made(
        lambda season, _: queries.readers(season), str, help_text="Who reads participants' sources, and when."
    )
    organisation = serializers.CharField(
        source="organisation.slug", default=None, allow_null=True, help_text="Whose owners run it; null for operators."
    )
    code = Made(
        lambda season, context: season.code if queries.runs(season, context["request"].user) else None,
        str | None,
        help_text="What participants need to join; null unless you run it.",
    )
    changed_problems = Made(
        # Entries from before such a change were judged by the problem as it was, until leaders are judged again.
        lambda season, _: queries.changed_problems(season, timezone.now()),
        list[str],
        help_text="Those with another revision than when it was published.",
    )
    entries = Made(lambda _, context: context["counted"]["entries"], int, help_text="How many count.")
    entries_pending = Made(
        lambda _, context: context["counted"]["pending"] + context["counted"]["rejudge_pending"],
        int,
        help_text="Not judged yet.",
    )
    standings = Made(
        lambda season, context: (
            SeasonTeamOutput(
                queries.standings(season)
                if queries.shows_board(season, context["request"].user, timezone.now())
                else (),
                many=True,
            ).data
        ),
        SeasonTeamOutput(many=True),
    )

    def to_representation(self, instance: models.Season) -> dict[str, Any]:
        """The season, counted once for the fields that say how many."""
        cast("dict[str, Any]", self.context)["counted"] = queries.counts(instance)
        return super().to_representation(instance)


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
    opened_sources = Choice(choices=models.OpenedSources.values, required=False)
    access = Choice(choices=models.Access.values, required=False)
    counts = Choice(choices=models.Counted.values, required=False)
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
    def create(self, request: Request) -> models.Season:
        """A draft of a season, or the change of one that the caller runs."""
        now = timezone.now()
        return actions.define(models.definition_of(self.body()), by=signed_in(request), now=now, is_draft=True)

    @operation("readSeason", "Read a season", SeasonDetail, query=SeasonQuery)
    def retrieve(self, request: Request, slug: str) -> models.Season:
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
        actions.enter(season, user, organisation=organisation, now=timezone.now(), code=body["code"])


@shows(models.Entry, "season=season.slug team=team.name evaluation counts message=refused page")
class SeasonEntryOutput(CopiedFields):
    """What a submission is to a season that its author takes part in.

    Attributes:
        message: Why it does not count.
    """

    evaluation = serializers.UUIDField(source="evaluation_id")
    counts = Made(lambda entry, _: not entry.refused, bool, help_text="Whether it does.")
    page = page("/seasons/{0.season}/")
