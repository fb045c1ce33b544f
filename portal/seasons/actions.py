"""What owners and operators do with seasons (define, publish, extend, end, judge again, finish), and who takes part."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import msgspec
from django.conf import settings
from django.db import IntegrityError, transaction

from evaluator.hardware import profiles
from portal.accounts.models import Membership, Organisation, User
from portal.accounts.organisations import get_organisation, require_owner
from portal.core.errors import Conflict, Forbidden, NotFound, check_choice
from portal.seasons import queries, scoring
from portal.seasons.models import Access, Definition, Entry, OpenedSources, Phase, Season, Team, TeamMember
from portal.submissions import actions as submissions
from portal.submissions.models import Evaluation
from problems import registry

_CHANGEABLE = {"slug", "title", "closes_at", "rules", "organisation"}
FIXED = tuple(name for name in Definition.__struct_fields__ if name not in _CHANGEABLE)
"""Fields that cannot change once a season is open: people have entered under them."""

TOLD = ("opened_sources", "owners_read")
"""Fields that say who reads sources: they cannot change once somebody has joined, who was told so."""


def define(definition: Definition, *, now: datetime, by: User, is_draft: bool = False) -> Season:
    """Store a season, or change what may still be changed of it.

    Before it opens everything may be; while it is open its title, its rules, and its end to a later moment; after its
    end title and rules. A season of an organisation stays its own.

    Raises:
        Refusal: `by` may not (403), the organisation has used up what the operator allows (409), or something would
            change that may not any more (409).
    """
    with transaction.atomic():
        season = Season.objects.select_for_update().filter(slug=definition.slug).first()
        organisation = _organisation(definition, by)
        if season is not None:
            queries.require_runs(season, by)
            if season.organisation != organisation:
                message = "A season stays with whoever made it."
                raise Conflict("organisation", definition.organisation, message, "Create another one under a new name.")
            has_begun = season.phase(now) not in (Phase.DRAFT, Phase.UPCOMING)
            if has_begun and definition.opens_at.replace(microsecond=0) <= season.opens_at:
                # It was published after the moment that was named.
                definition = msgspec.structs.replace(definition, opens_at=season.opens_at)
            check_change(season, definition, now)
        if organisation is not None and not by.is_staff:
            _check_allowance(organisation, definition)
        values = definition.columns | {"organisation": organisation}
        if season is None or season.phase(now) in (Phase.DRAFT, Phase.UPCOMING):
            values |= {"announced_closes_at": definition.closes_at, "revisions": _revisions(definition.problems)}
        if season is None:
            try:
                with transaction.atomic():
                    return Season.objects.create(**values, published_at=None if is_draft else now)
            except IntegrityError as error:
                message = "Somebody else has just created a season of this name."
                raise Conflict("slug", definition.slug, message, "Look at that season first.") from error
        for name, value in values.items():
            setattr(season, name, value)
        season.save()
    return season


def _organisation(definition: Definition, by: User) -> Organisation | None:
    """Whose owners run it, locked, so that two seasons at once do not exceed the allowance; None for operators."""
    if not definition.organisation:
        if not by.is_staff:
            message = "Only an organisation or an operator opens a season."
            raise Forbidden("organisation", "", message, "Name an organisation that you own.")
        return None
    organisation = get_organisation(by, definition.organisation)
    require_owner(by, organisation)
    return Organisation.objects.select_for_update().get(pk=organisation.pk)


def _check_allowance(organisation: Organisation, definition: Definition) -> None:
    """Refuse (409) more than the operator allows: so many seasons at a time, and GPUs only where time is granted."""
    most = settings.SEASONS_PER_ORGANISATION
    others = organisation.seasons.filter(final_at=None).exclude(slug=definition.slug).count()
    if others >= most:
        message = f"{organisation.name} has {others} seasons that are not final; this site allows {most} at a time."
        raise Conflict("organisation", organisation.slug, message, "Finish one first, or ask the operator.")
    if profiles.get(definition.profile).is_ranked_by_speed and organisation.gpu_seconds is None:
        message = f"{organisation.name} has no GPU time of its own for a season on {definition.profile}."
        raise Conflict("profile", definition.profile, message, "Choose a practice profile, or ask the operator.")


def _revisions(problems: tuple[str, ...]) -> dict[str, str]:
    return {slug: registry.revision(slug) for slug in problems}


@dataclass(frozen=True)
class Step:
    """Something to do with a season as it is: its button, what is then said, and in which phases it fits."""

    label: str
    done: str
    phases: tuple[Phase, ...]


STEPS = {
    "publish": Step("Publish: it opens at its time", "It is published.", (Phase.DRAFT,)),
    "open": Step("Open now", "It is open.", (Phase.DRAFT, Phase.UPCOMING)),
    "delete": Step("Delete the draft", "The draft is gone.", (Phase.DRAFT,)),
    "end": Step("End now", "It has ended.", (Phase.OPEN,)),
    "retry": Step("Judge failures again", "What a failure of ours ended is judged again.", (Phase.CLOSED,)),
    "rejudge": Step(
        "Judge the leaders again", "They are judged again on fresh inputs.", (Phase.CLOSED, Phase.REJUDGING)
    ),
    "finish": Step("Make the standings final", "The standings are final.", (Phase.REJUDGING,)),
    "finish_despite_failures": Step(
        "Make them final, what our failures left counts as not solved", "The standings are final.", (Phase.REJUDGING,)
    ),
}


def take(season: Season, step: str, *, by: User, now: datetime) -> str:
    """Take one of STEPS; returns what has happened, as a sentence.

    Raises:
        Refusal: there is no such step (422), `by` does not run the season (403), or it is not its time (409).
    """
    queries.require_runs(season, by)
    check_choice("step", step, STEPS)
    acts: dict[str, Callable[..., object]] = {"retry": judge_failed_again, "rejudge": rejudge_leaders, "finish": finish}
    acts["finish_despite_failures"] = partial(finish, despite_failures=True)
    acts.get(step, partial(_change_phase, step=step))(season, now=now)
    return STEPS[step].done


def _change_phase(season: Season, *, step: str, now: datetime) -> None:
    with transaction.atomic():
        season = Season.objects.select_for_update().get(pk=season.pk)
        phase = season.phase(now)
        if phase not in STEPS[step].phases:
            message = f"The season is {phase.label.partition(':')[0].lower()}: this step does not fit."
            raise Conflict("step", step, message, "Its page offers the steps that do.")
        if step == "delete":
            season.delete()
            return
        if step == "end":
            season.closes_at = now.replace(microsecond=0)
        else:
            season.published_at = season.published_at or now
            season.opens_at = max(now, season.opens_at) if step == "publish" else now
            season.opens_at = season.opens_at.replace(microsecond=0)  # forms show no more
            season.revisions = _revisions(season.problems)
            if season.closes_at <= now:
                message = f"Its end, {queries.utc_text(season.closes_at)}, has passed."
                raise Conflict("closes_at", season.slug, message, "Set a later end first.")
        season.save()


def check_change(season: Season, definition: Definition, now: datetime) -> None:
    """Refuse (409) a change that comes too late."""
    phase = season.phase(now)
    if phase in (Phase.DRAFT, Phase.UPCOMING):
        for name in TOLD:
            if definition.columns[name] != getattr(season, name) and season.members.exists():
                message = f"Participants have joined and were told who reads their sources: {name} cannot be changed."
                raise Conflict(name, season.slug, message, "Create another season.")
        return
    for name in FIXED:
        if definition.columns[name] != getattr(season, name):
            message, was = f"The season has begun: {name} cannot be changed any more.", getattr(season, name)
            remedy = f"Leave it at {was.isoformat() if name == 'opens_at' else was}, or create another season."
            raise Conflict(name, season.slug, message, remedy)
    moved = definition.closes_at != season.closes_at
    if moved and (phase is not Phase.OPEN or definition.closes_at < season.closes_at):
        message = "The end can only be moved to a later time, and only while the season is open."
        raise Conflict("closes_at", season.slug, message, f"It is {season.closes_at:%Y-%m-%d %H:%M} UTC.")


def rejudge_leaders(season: Season, *, now: datetime) -> list[Evaluation]:
    """Have the best teams' entries of every problem judged again, on fresh inputs; returns the queued evaluations.

    May be called again: it repeats evaluations that a failure of ours ended, and changes no finished result.

    Raises:
        Refusal: the season is open or final, or entries are not judged yet (409).
    """
    with transaction.atomic():
        season = Season.objects.select_for_update().get(pk=season.pk)
        _require_closed(season, now)
        counted = queries.counts(season)
        if season.rejudge_at is None and counted["pending"]:
            raise Conflict("season", season.slug, f"Entries not judged yet: {counted['pending']}.", "Wait for them.")
        if season.rejudge_at is None and counted["failed"]:
            message = f"Entries whose judging a failure of ours ended: {counted['failed']}."
            raise Conflict("season", season.slug, message, "Have these judged again first.")
        queued = _judge_again(_to_judge_again(season), "final")
        if season.rejudge_at is None:
            Season.objects.filter(pk=season.pk).update(rejudge_at=now)
    return queued


def _to_judge_again(season: Season) -> list[Entry]:
    """The leaders' entries without a rejudge, or with one that ended without a result."""
    best = scoring.best_results(queries.results(queries.counted_entries(season), season))
    keys = [
        result.entry
        for problem in season.problems
        for result in scoring.leaders(best, problem=problem, count=season.rejudged_per_problem)
    ]
    entries = Entry.objects.filter(pk__in=keys).select_related("evaluation__submission", "final")
    return [entry for entry in entries if entry.final is None or queries.has_failed(entry.final)]


def judge_failed_again(season: Season, *, now: datetime) -> list[Evaluation]:
    """Have entries judged again that a failure of ours has ended: they count by what is found then.

    Raises:
        Refusal: the season is judged again already, or final (409).
    """
    with transaction.atomic():
        season = Season.objects.select_for_update().get(pk=season.pk)
        if season.phase(now) in (Phase.REJUDGING, Phase.FINAL):
            raise Conflict(
                "season", season.slug, "The leaders are being judged again already.", "Judge the leaders again instead."
            )
        failed = [entry for entry in queries.counted_entries(season) if queries.has_failed(entry.evaluation)]
        return _judge_again(failed, "evaluation")


def _judge_again(entries: list[Entry], column: str) -> list[Evaluation]:
    """Queue the entries' evaluations again; `column` of an entry then names the new one."""
    queued = submissions.rejudge(entry.evaluation for entry in entries)
    # One entry gets it where two are of one submission.
    by_submission = {evaluation.submission_id: evaluation for evaluation in queued}
    for entry in entries:
        if evaluation := by_submission.pop(entry.evaluation.submission_id, None):
            Entry.objects.filter(pk=entry.pk).update(**{column: evaluation})
    return queued


def finish(season: Season, *, now: datetime, despite_failures: bool = False) -> Season:
    """Make the standings final and open the sources that the rules name.

    With `despite_failures` an entry whose rejudge keeps failing on our side counts as not solved. A program can be what
    makes a judge fail, and nobody shall keep a season open with one.

    Raises:
        Refusal: the season is open or final, its leaders were not judged again, or that is not done (409).
    """
    with transaction.atomic():
        season = Season.objects.select_for_update().get(pk=season.pk)
        _require_closed(season, now)
        if season.rejudge_at is None:
            raise Conflict(
                "season", season.slug, "Its leaders were not judged again.", "Judge the leaders again first."
            )
        if not despite_failures and _to_judge_again(season):
            message = "Some of the leaders' entries were not judged again, or a failure of ours ended their rejudge."
            remedy = "Judge the leaders again. After several tries, make them final despite failures."
            raise Conflict("season", season.slug, message, remedy)
        waiting = queries.counts(season)["rejudge_pending"]
        if waiting:
            raise Conflict("season", season.slug, f"Entries still being judged again: {waiting}.", "Wait for them.")
        season.final_at = now
        season.save(update_fields=["final_at"])
        submissions.open_sources(_opened(season), opened_by=f"the season {season.title}")
    return season


def _opened(season: Season) -> list[object]:
    if season.opened_sources in (OpenedSources.ALL, OpenedSources.AT_ONCE):
        return list(queries.counted_entries(season).values_list("evaluation__submission", flat=True))
    if season.opened_sources == OpenedSources.STANDINGS:
        return [result.submission_id for result in queries.standing_results(season).values()]
    return []


def _require_closed(season: Season, now: datetime) -> None:
    phase = season.phase(now)
    if phase in (Phase.DRAFT, Phase.UPCOMING, Phase.OPEN):
        raise Conflict(
            "season", season.slug, f"The season closes at {season.closes_at:%Y-%m-%d %H:%M} UTC.", "Wait until then."
        )
    if phase is Phase.FINAL:
        raise Conflict("season", season.slug, "The season is final.", "A final season cannot be changed.")


# ---- taking part -----------------------------------------------------------------------------------------------------


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
        message = f"{season.title} closed at {queries.utc_text(season.closes_at)}."
        if season.phase(now) is Phase.DRAFT:
            message = f"{season.title} is a draft."
        raise Conflict("season", season.slug, message, "Teams cannot change any more. The ordinary boards are open.")
