"""Some queued evaluations are entries of a season."""

from portal.seasons.models import Entry, OpenedSources, TeamMember
from portal.seasons.queries import may_enter, utc_text
from portal.submissions.actions import open_sources
from portal.submissions.hooks import evaluation_queued
from portal.submissions.models import Evaluation


@evaluation_queued.receiver
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
        return f"{season.title} closed at {utc_text(season.closes_at)}; this came {late} too late."
    if team.organisation is not None and not team.organisation.memberships.filter(user=part.user_id).exists():
        return f"You no longer belong to {team.organisation.name}, whose team you were in."
    return ""
