"""Teams: taking part in a season, and leaving it."""

from datetime import datetime

from django.db import IntegrityError, transaction

from portal.accounts.models import Membership, Organisation, User
from portal.accounts.organisations import require_owner
from portal.core.errors import Conflict, Forbidden, NotFound
from portal.seasons.models import Access, Entry, Phase, Season, Team, TeamMember
from portal.seasons.queries import utc_text


def enter(
    season: Season, user: User, *, organisation: Organisation | None, now: datetime, code: str = ""
) -> TeamMember:
    """Take part: alone, or with the organisation's team, which its first owner to enter makes.

    `code` is the season's, which is needed unless everybody may enter.

    Raises:
        Refusal: the code is not the season's (403), it is closed for new teams or the team is full (409). The user is
            in a team already (409), does not belong to the organisation (404), or enters first and is no owner (403).
    """
    if season.access != Access.EVERYBODY and code.strip() != season.code:
        raise Forbidden("code", "", "This is not the code of the season.", "Ask whoever runs it for the code.")
    _require_takes_part(season, now)
    with transaction.atomic():
        # The row of the season is locked: two concurrent requests may not both fill a team's last seat.
        Season.objects.select_for_update().get(pk=season.pk)
        member = TeamMember.objects.filter(season=season, user=user).select_related("team").first()
        if member is not None:
            message = f"You are in the team {member.team.name} already."
            raise Conflict("season", season.slug, message, "Each person can be in one team.")
        if organisation is None:
            team = Team.objects.create(season=season, person=user, name=user.username)
        else:
            team = _team_of(season, user, organisation)
        try:
            return TeamMember.objects.create(season=season, team=team, user=user, joined_at=now)
        except IntegrityError as error:  # the same request at the same moment, on a database whose locks came too late
            message = "You are in a team already."
            raise Conflict("season", season.slug, message, "Each person can be in one team.") from error


def _team_of(season: Season, user: User, organisation: Organisation) -> Team:
    if not Membership.objects.filter(organisation=organisation, user=user).exists():
        message = "You are not a member of this organisation."
        raise NotFound("organisation", organisation.slug, message, "Ask one of its owners to invite you.")
    team = Team.objects.filter(season=season, organisation=organisation).first()
    if team is None:
        require_owner(user, organisation)
        return Team.objects.create(season=season, organisation=organisation, name=organisation.name)
    if team.members.count() >= season.largest_team:
        message = f"The team has {season.largest_team} members, which is the limit of this season."
        raise Conflict("organisation", organisation.slug, message, "Take part alone.")
    return team


def leave(season: Season, user: User, *, now: datetime) -> None:
    """Leave the season, if there is no entry yet: afterwards teams cannot change.

    Raises:
        Refusal: the user is in no team (404), has entered something (409), or the season is over (409).
    """
    _require_takes_part(season, now)
    with transaction.atomic():
        Season.objects.select_for_update().get(pk=season.pk)
        member = TeamMember.objects.filter(season=season, user=user).select_related("team").first()
        if member is None:
            raise NotFound("season", season.slug, "You are in no team of this season.", "Enter it first.")
        if Entry.objects.filter(season=season, evaluation__submission__author=user).exists():
            message = f"You have an entry for {member.team.name}, so you cannot leave the team."
            raise Conflict("season", season.slug, message, "To submit without an entry, use mode check or benchmark.")
        team = member.team
        member.delete()
        if not team.members.exists() and not team.entries.exists():
            team.delete()


def _require_takes_part(season: Season, now: datetime) -> None:
    if season.phase(now) not in (Phase.UPCOMING, Phase.OPEN):
        message = f"{season.title} closed at {utc_text(season.closes_at)}."
        if season.phase(now) is Phase.DRAFT:
            message = f"{season.title} is a draft."
        raise Conflict("season", season.slug, message, "Teams cannot change any more. The ordinary boards are open.")
