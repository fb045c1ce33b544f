"""Reads of seasons: standings, entries, and how scores grew."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.template.loader import render_to_string
from django.utils import timezone

from evaluator.contract import Mode, Verdict
from portal.accounts.models import Role, User, Viewer
from portal.accounts.organisations import role_in
from portal.core.errors import Forbidden, by_id
from portal.seasons import scoring
from portal.seasons.models import Access, Entry, Phase, Season, Team, TeamMember
from portal.submissions.models import Evaluation, State, Submission, Visibility
from portal.submissions.queries import quarantined
from portal.submissions.queue import QueuePosition, position_in_queue
from portal.tabular.tables import Table, integer, moment, number, text
from problems import registry

OURS = (Verdict.JUDGE_FAILURE.value, Verdict.JUDGE_ERROR.value, Verdict.BASELINE_UNSTABLE.value)
"""Verdicts that are no fault of the entry: it is to be judged once more."""


def visible(viewer: Viewer) -> QuerySet[Season]:
    """The seasons that `viewer` finds: those for everybody, and those that they run or take part in."""
    seasons, found = (
        Season.objects.select_related("organisation"),
        Q(access=Access.EVERYBODY, published_at__isnull=False),
    )
    if not isinstance(viewer, User):
        return seasons.filter(found)
    if viewer.is_staff:
        return seasons
    owned = viewer.memberships.filter(role=Role.OWNER).values("organisation")
    return seasons.filter(found | Q(organisation__in=owned) | Q(pk__in=viewer.season_memberships.values("season")))


def get_season(slug: str, viewer: Viewer, *, code: str = "") -> Season:
    """The season of that name, if `viewer` finds it or has its code.

    Raises:
        Refusal: there is none (404).
    """
    found = Season.objects.filter(Q(pk__in=visible(viewer).values("pk")) | Q(code=code, published_at__isnull=False))
    message = "There is no such season, or you need its code."
    return by_id(
        found, "season", slug, message, "/seasons/ lists the seasons, /seasons/join/ takes a code.", column="slug"
    )


def get_season_by_code(code: str) -> Season:
    """The published season that this code lets people into; raises Refusal (404)."""
    found = Season.objects.filter(published_at__isnull=False)
    message = "No season has this code."
    return by_id(
        found, "code", code.strip(), message, "Check it for missing characters, or ask who gave it.", column="code"
    )


def runs(season: Season, viewer: Viewer) -> bool:
    """Whether `viewer` runs the season: an owner of its organisation, or an operator."""
    if not isinstance(viewer, User):
        return False
    owner = season.organisation is not None and role_in(viewer, season.organisation) == Role.OWNER
    return viewer.is_staff or owner


def require_runs(season: Season, user: User) -> None:
    """Refuse (403) whoever does not run the season."""
    if not runs(season, user):
        remedy = "Ask an owner of its organisation, or an operator."
        raise Forbidden("season", season.slug, "Only who runs the season can do this.", remedy)


def shows_board(season: Season, viewer: Viewer, now: datetime) -> bool:
    """Whether `viewer` sees what others have reached by now."""
    is_over = season.phase(now) in (Phase.CLOSED, Phase.REJUDGING, Phase.FINAL)
    return not season.hides_board or is_over or runs(season, viewer)


def require_board(season: Season, viewer: Viewer, now: datetime) -> None:
    """Refuse (403) whoever does not see yet what others have reached, or needs the code to."""
    if not shows_board(season, viewer, now):
        raise Forbidden("season", season.slug, "Its results are shown after its end.", "Come back then.")


def readers(season: Season) -> str:
    """Who reads a participant's sources, as they are told before they join; `submissions.access` lets no others."""
    return " ".join(render_to_string("seasons/readers.txt", {"season": season}).split())


def changed_problems(season: Season, now: datetime) -> list[str]:
    """The problems with another revision than when it was published, or gone; none once leaders are judged again."""
    if season.phase(now) not in (Phase.OPEN, Phase.CLOSED):
        return []
    known = {problem.slug for problem in registry.problems()}
    return [slug for slug, was in season.revisions.items() if slug not in known or registry.revision(slug) != was]


def utc_text(moment: datetime) -> str:
    """A moment as sentences name it."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def counted_entries(season: Season | None = None) -> QuerySet[Entry]:
    """The entries that count for the season, or for any, of open accounts and in no quarantine, the first one first."""
    chosen = Entry.objects.filter(refused="", evaluation__submission__author__is_active=True)
    chosen = chosen.filter(season=season) if season else chosen
    chosen = chosen.exclude(evaluation__submission__in=quarantined().values("submission"))
    return chosen.select_related("evaluation__submission__author", "final").order_by("entered_at", "id")


def public_entries(now: datetime) -> QuerySet[Entry]:
    """The entries of seasons for everybody that show by now what others have reached."""
    shown = Q(season__hides_board=False) | Q(season__closes_at__lte=now)
    of_all = {"season__access": Access.EVERYBODY, "season__published_at__isnull": False}
    return counted_entries().filter(shown, **of_all).order_by("season", "entered_at", "id")


def results(entries: Iterable[Entry], season: Season) -> list[scoring.Result]:
    """The results of those entries that were accepted, as they were judged first, in the order of `entries`."""
    found = (_result(entry, entry.evaluation, season) for entry in entries)
    return [result for result in found if result is not None]


def _result(entry: Entry, judged: Evaluation, season: Season, *, is_rejudged: bool = False) -> scoring.Result | None:
    """The result of an entry by its evaluation `judged`; None if it was not accepted."""
    accepted = judged.state == State.FINISHED and judged.verdict == Verdict.PASSED.value
    if not accepted or judged.score_rule != season.score_rule:
        return None
    submission = entry.evaluation.submission
    return scoring.Result(
        team=entry.team_id,
        problem=entry.problem,
        score=judged.score,
        low=None if judged.score is None else judged.score_low,  # what nothing timed has 0 there
        high=judged.score_high,
        entered_at=entry.entered_at,
        entry=entry.pk,
        submission_id=submission.pk,
        evaluation_id=judged.pk,
        author=submission.author.username,
        is_source_public=submission.visibility == Visibility.PUBLIC,
        is_by_speed=season.is_ranked_by_speed,
        is_rejudged=is_rejudged,
    )


def standing_results(season: Season) -> dict[tuple[int, str], scoring.Result]:
    """What the standings rest on now: before the rejudge what was judged first, afterwards the rejudge.

    A team's best entry that was judged again counts as it was found then, not at all where it did not pass. What was
    not judged again counts no more than the slowest that was.
    """
    entries = list(counted_entries(season))
    best = scoring.best_results(results(entries, season))
    if season.rejudge_at is None:
        return best
    by_key = {entry.pk: entry for entry in entries}
    return {
        key: result
        for problem in season.problems
        for key, result in _after_rejudge(season, problem, best, by_key).items()
    }


def _after_rejudge(
    season: Season, problem: str, best: dict[tuple[int, str], scoring.Result], entries: dict[int, Entry]
) -> dict[tuple[int, str], scoring.Result]:
    of_problem = {key: result for key, result in best.items() if key[1] == problem}
    again: dict[tuple[int, str], scoring.Result] = {}
    others: dict[tuple[int, str], scoring.Result] = {}
    for key, result in of_problem.items():
        entry = entries[result.entry]
        if entry.final is None:
            others[key] = result
            continue
        found = _result(entry, entry.final, season, is_rejudged=True)
        if found is not None:
            again[key] = found
    limit = min((result.speed for result in again.values()), default=1.0)
    return again | {key: replace(result, limit=limit) for key, result in others.items()}


@dataclass(frozen=True, kw_only=True)
class StandingRow:
    team: Team
    line: scoring.TeamScore
    members: tuple[str, ...]


def standings(season: Season) -> tuple[StandingRow, ...]:
    """Every team's line, best first; those without an accepted entry last."""
    teams = {team.pk: team for team in season.teams.select_related("organisation").prefetch_related("members__user")}
    lines = scoring.standings(
        teams, standing_results(season), problems=season.problems, by_speed=season.is_ranked_by_speed
    )
    people = {
        key: tuple(member.user.username for member in team.members.all() if member.user.is_active)
        for key, team in teams.items()
    }
    return tuple(StandingRow(team=teams[line.team], line=line, members=people[line.team]) for line in lines)


def counts(season: Season) -> dict[str, int]:
    """The progress of judging a season: entries, those not judged yet, and the same of the rejudge.

    `failed` were lost by a failure of ours and are to be judged once more.
    """
    entries = list(counted_entries(season))
    finals = [entry.final for entry in entries if entry.final is not None]
    first = [entry.evaluation for entry in entries]
    return {
        "entries": len(first),
        "pending": sum(not each.has_ended for each in first),
        "failed": sum(has_failed(each) for each in first),
        "rejudged": len(finals),
        "rejudge_pending": sum(not each.has_ended for each in finals),
    }


def has_failed(evaluation: Evaluation) -> bool:
    """Whether it ended without a result for the entry."""
    return evaluation.state == State.UNSERVED or (evaluation.state == State.FINISHED and evaluation.verdict in OURS)


def part_in(season: Season, viewer: Viewer) -> TeamMember | None:
    if not isinstance(viewer, User):
        return None
    return TeamMember.objects.filter(season=season, user=viewer).select_related("team__organisation").first()


def entries_of(season: Season, author: User) -> list[Entry]:
    """The last 100 that `author` has handed in, the last one first, refused ones too."""
    mine = season.entries.filter(evaluation__submission__author=author)
    return list(mine.select_related("evaluation__submission__author", "final").order_by("-entered_at", "-id")[:100])


def entries_from(submission: Submission, evaluations: Iterable[Evaluation] | None = None) -> list[Entry]:
    """The entries that a submission's evaluations, where known `evaluations`, made, the last one first."""
    # Most submissions have none.
    if evaluations is not None and not any(may_enter(submission, each) for each in evaluations):
        return []
    chosen = Entry.objects.filter(evaluation__submission=submission).prefetch_related("season", "team", "evaluation")
    return list(chosen.order_by("-entered_at", "season__slug"))


def may_enter(submission: Submission, evaluation: Evaluation) -> bool:
    """Whether an evaluation is of the kind that becomes an entry: ranked, on the site's own nodes, of no run."""
    is_own = not submission.is_attempt and evaluation.node_owner_id is None
    return is_own and evaluation.mode == Mode.RANKED.value


def seasons_for(viewer: Viewer, problem: str) -> list[TeamMember]:
    """The parts of `viewer` in open seasons that have this problem."""
    now = timezone.now()
    # Who is not signed in has no key and takes no part.
    parts = TeamMember.objects.filter(user=viewer.pk, season__opens_at__lte=now, season__closes_at__gt=now)
    chosen = parts.filter(season__final_at=None).select_related("season", "team")
    return [part for part in chosen if problem in part.season.problems]


def people(season: Season) -> dict[str, dict[str, dict[str, Any]]]:
    """By person, in the order of joining, and by problem what they have reached; closed accounts are left out.

    That is the best accepted entry, else the last one, and how many entries there are. `outcome` is its verdict, or the
    state of what is not judged yet.
    """
    members = season.members.filter(user__is_active=True).values_list("user__username", flat=True)
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in members}
    for entry in counted_entries(season).select_related("team"):
        cells = found.setdefault(entry.evaluation.submission.author.username, {})
        current, result = cells.get(entry.problem), _result(entry, entry.evaluation, season)
        attempts = current["attempts"] + 1 if current else 1
        if current and current["result"] and (result is None or result.order >= current["result"].order):
            entry, result = current["entry"], current["result"]  # noqa: PLW2901 - what stays the best
        outcome = entry.evaluation.verdict or entry.evaluation.state
        cells[entry.problem] = {"entry": entry, "result": result, "attempts": attempts, "outcome": outcome}
    return found


def people_table(season: Season) -> Table:
    """What people have reached, a row for each person and problem that they have tried."""
    columns = (
        text("person", "account", "entry.evaluation.submission.author.username"),
        text("team", "team", "entry.team.name"),
        text("problem", "its slug", "entry.problem"),
        text("outcome", "PASSED, the verdict of the last entry, or its state while it is not judged"),
        number("score", "speedup of the best entry", "result.score"),
        number("score_low", "lower end of its interval", "result.low"),
        number("score_high", "upper end of its interval", "result.high"),
        integer("attempts", "entries"),
        moment("entered_at", "when the best, or else the last, entry was handed in", "entry.entered_at"),
    )
    cells = [cell for by_problem in people(season).values() for cell in by_problem.values()]
    return Table(name="people", meaning="People by problems", columns=columns, entries=lambda: cells)


def last_to_wait(season: Season) -> QueuePosition | None:
    """Where the last of the season's entries that wait is in the queue; None where none waits."""
    waiting = counted_entries(season).filter(evaluation__state__in=State.waiting())
    last = waiting.order_by("-evaluation__turn", "-evaluation__queued_at").first()
    return position_in_queue(last.evaluation) if last else None
