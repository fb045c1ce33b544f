"""Teams, and what becomes an entry of a season."""

from datetime import datetime

from django.db import IntegrityError, transaction

from portal.accounts.models import Membership, Organisation, User
from portal.accounts.organisations import require_owner
from portal.core.errors import Conflict, Forbidden, NotFound
from portal.seasons.models import Access, Entry, OpenedSources, Phase, Season, Team, TeamMember
from portal.seasons.queries import may_enter, said
from portal.submissions.actions import open_sources
from portal.submissions.models import Evaluation


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
        held = TeamMember.objects.filter(season=season, user=user).select_related("team").first()
        if held is not None:
            message = f"You are in the team {held.team.name} already."
            raise Conflict("season", season.slug, message, "Each person can be in one team.")
        team = _own_team(season, user) if organisation is None else _team_of(season, user, organisation)
        try:
            return TeamMember.objects.create(season=season, team=team, user=user, joined_at=now)
        except IntegrityError as error:  # the same request at the same moment, on a database whose locks came too late
            message = "You are in a team already."
            raise Conflict("season", season.slug, message, "Each person can be in one team.") from error


def _own_team(season: Season, user: User) -> Team:
    return Team.objects.create(season=season, person=user, name=user.username)


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
        message = f"{season.title} closed at {said(season.closes_at)}."
        if season.phase(now) is Phase.DRAFT:
            message = f"{season.title} is a draft."
        raise Conflict("season", season.slug, message, "Teams cannot change any more. The ordinary boards are open.")


def note_entry(evaluation: Evaluation) -> None:
    """Make a ranked evaluation that its author asked for an entry of every season it is for.

    Runs inside the transaction that stores it. The moment at which it was stored decides, not that of its verdict. What
    comes later is noted with the reason why it does not count, and goes to the ordinary board.
    """
    submission = evaluation.submission
    if not may_enter(submission, evaluation):
        return
    parts = TeamMember.objects.filter(
        user=submission.author_id,
        season__profile=evaluation.profile,
        season__opens_at__lte=evaluation.queued_at,
        season__final_at=None,
    ).select_related("season", "team__organisation")
    entries = [
        Entry(
            season=part.season,
            team=part.team,
            problem=submission.problem,
            evaluation=evaluation,
            entered_at=evaluation.queued_at,
            refused=_reason_against(part, evaluation),
        )
        for part in parts
        if submission.problem in part.season.problems
    ]
    Entry.objects.bulk_create(entries)
    for entry in entries:
        if entry.season.opened_sources == OpenedSources.AT_ONCE and not entry.refused:
            open_sources([submission.pk], opened_by=f"the season {entry.season.title}")


def _reason_against(part: TeamMember, evaluation: Evaluation) -> str:
    """Why an evaluation does not count for the season of `part`; empty where it does."""
    season, team = part.season, part.team
    if evaluation.queued_at >= season.closes_at:
        late_s = (evaluation.queued_at - season.closes_at).total_seconds()
        late = f"{late_s:.1f} s" if late_s < 120 else f"{late_s / 60:.0f} min"
        return f"{season.title} closed at {said(season.closes_at)}; this came {late} too late."
    if team.organisation is not None and not team.organisation.memberships.filter(user=part.user_id).exists():
        return f"You no longer belong to {team.organisation.name}, whose team you were in."
    return ""
