"""Reads of seasons: standings, entries, and how scores grew."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import QuerySet

from evaluator.contract import Mode, Verdict
from portal.accounts.models import User
from portal.accounts.queries import Viewer
from portal.core.requests import by_id
from portal.seasons import scoring
from portal.seasons.models import Entry, Season, Team, TeamMember
from portal.seasons.scoring import Result, TeamScore
from portal.submissions.models import Evaluation, State, Submission, Visibility
from portal.submissions.queries import quarantined

OURS = (Verdict.JUDGE_FAILURE.value, Verdict.JUDGE_ERROR.value, Verdict.BASELINE_UNSTABLE.value)
"""Verdicts that are no fault of the entry: it is to be judged once more."""


def get_season(slug: str) -> Season:
    """The season of that name; raises Refusal (404)."""
    remedy = "/seasons/ lists the seasons."
    return by_id(Season.objects.all(), "season", slug, "There is no such season.", remedy, column="slug")


def counted_entries(season: Season) -> QuerySet[Entry]:
    """The entries that count for the season, of open accounts and in no quarantine, the first one first."""
    chosen = season.entries.filter(refused="", evaluation__submission__author__is_active=True)
    chosen = chosen.exclude(evaluation__submission__in=quarantined().values("submission"))
    return chosen.select_related("evaluation__submission__author", "final").order_by("entered_at", "id")


def results_in_order(season: Season) -> list[Result]:
    """Every accepted entry's result as it was judged first, in the order of handing in."""
    return _results(counted_entries(season), season)


def _results(entries: Iterable[Entry], season: Season) -> list[Result]:
    found = (_result(entry, entry.evaluation, season) for entry in entries)
    return [result for result in found if result is not None]


def _result(entry: Entry, judged: Evaluation, season: Season, *, is_rejudged: bool = False) -> Result | None:
    """The result of an entry by its evaluation `judged`; None if it was not accepted."""
    accepted = judged.state == State.FINISHED and judged.verdict == Verdict.PASSED.value
    if not accepted or judged.score_rule != season.score_rule:
        return None
    if judged.score is None or judged.score_low is None or judged.score_high is None:
        return None
    submission = entry.evaluation.submission
    return Result(
        team=entry.team_id,
        problem=entry.problem,
        score=judged.score,
        low=judged.score_low,
        high=judged.score_high,
        entered_at=entry.entered_at,
        entry=entry.pk,
        submission_id=submission.pk,
        evaluation_id=judged.pk,
        author=submission.author.username,
        is_source_public=submission.visibility == Visibility.PUBLIC,
        is_rejudged=is_rejudged,
    )


def standing_results(season: Season) -> dict[tuple[int, str], Result]:
    """What the standings rest on now: before the rejudge what was judged first, afterwards the rejudge.

    A team's best entry that was judged again counts as it was found then, not at all where it did not pass. What was
    not judged again counts no more than the slowest that was.
    """
    entries = list(counted_entries(season))
    best = scoring.best_results(_results(entries, season))
    if season.rejudge_at is None:
        return best
    by_key = {entry.pk: entry for entry in entries}
    return {
        key: result
        for problem in season.problems
        for key, result in _after_rejudge(season, problem, best, by_key).items()
    }


def _after_rejudge(
    season: Season, problem: str, best: dict[tuple[int, str], Result], entries: dict[int, Entry]
) -> dict[tuple[int, str], Result]:
    of_problem = {key: result for key, result in best.items() if key[1] == problem}
    again: dict[tuple[int, str], Result] = {}
    others: dict[tuple[int, str], Result] = {}
    for key, result in of_problem.items():
        entry = entries[result.entry]
        if entry.final is None:
            others[key] = result
            continue
        found = _result(entry, entry.final, season, is_rejudged=True)
        if found is not None:
            again[key] = found
    limit = min((result.low for result in again.values()), default=1.0)
    return again | {key: replace(result, limit=limit) for key, result in others.items()}


@dataclass(frozen=True, kw_only=True)
class StandingRow:
    team: Team
    line: TeamScore
    members: tuple[str, ...]


def standings(season: Season) -> tuple[StandingRow, ...]:
    """Every team's line, best first; those without an accepted entry last."""
    teams = {team.pk: team for team in season.teams.select_related("organisation").prefetch_related("members__user")}
    lines = scoring.standings(
        teams, standing_results(season), problems=season.problems, by_speed=season.is_ranked_by_speed
    )
    return tuple(_row(teams[line.team], line) for line in lines)


def _row(team: Team, line: TeamScore) -> StandingRow:
    names = tuple(member.user.username for member in team.members.all() if member.user.is_active)
    return StandingRow(team=team, line=line, members=names)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The progress of judging a season: entries, those not judged yet, and the same of the rejudge.

    `failed` were lost by a failure of ours and are to be judged once more.
    """

    entries: int
    pending: int
    failed: int
    rejudged: int
    rejudge_pending: int
    rejudge_failed: int


def counts(season: Season) -> Counts:
    entries = list(counted_entries(season))
    finals = [entry.final for entry in entries if entry.final is not None]
    first = [entry.evaluation for entry in entries]
    return Counts(
        entries=len(first),
        pending=sum(not each.has_ended for each in first),
        failed=sum(has_failed(each) for each in first),
        rejudged=len(finals),
        rejudge_pending=sum(not each.has_ended for each in finals),
        rejudge_failed=sum(has_failed(each) for each in finals),
    )


def has_failed(evaluation: Evaluation) -> bool:
    """Whether it ended without a result for the entry."""
    return evaluation.state == State.UNSERVED or (evaluation.state == State.FINISHED and evaluation.verdict in OURS)


Progress = tuple[tuple[datetime, float], ...]
"""What a team's score was, or how much it had solved, from each moment on."""


def progress(season: Season, teams: Iterable[int]) -> dict[int, Progress]:
    """How the given teams' scores grew with what they handed in, by what was judged first."""
    wanted = set(teams)
    held: dict[tuple[int, str], Result] = {}
    lines: dict[int, list[tuple[datetime, float]]] = {team: [] for team in wanted}
    for result in results_in_order(season):
        if result.team not in wanted:
            continue
        before = held.get((result.team, result.problem))
        if before is not None and before.low >= result.low:
            continue
        held[result.team, result.problem] = result
        lines[result.team].append((result.entered_at, _reached(season, result.team, held)))
    return {team: tuple(line) for team, line in lines.items()}


def _reached(season: Season, team: int, held: dict[tuple[int, str], Result]) -> float:
    own = [result for (owner, _), result in held.items() if owner == team]
    if not season.is_ranked_by_speed:
        return float(len(own))
    return scoring.geometric_mean((result.speed for result in own), problems=len(season.problems))


def part_in(season: Season, viewer: Viewer) -> TeamMember | None:
    if not isinstance(viewer, User):
        return None
    return TeamMember.objects.filter(season=season, user=viewer).select_related("team__organisation").first()


def entries_of(team: Team, *, limit: int = 100) -> list[Entry]:
    """What a team has handed in, the last one first: for its members alone, refused ones too."""
    chosen = team.entries.select_related("evaluation__submission__author", "final").order_by("-entered_at", "-id")
    return list(chosen[:limit])


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


def seasons_for(user: User, *, problem: str, now: datetime) -> list[TeamMember]:
    """The parts of `user` in open seasons that have this problem."""
    parts = TeamMember.objects.filter(user=user, season__opens_at__lte=now, season__closes_at__gt=now)
    chosen = parts.filter(season__final_at=None).select_related("season", "team")
    return [part for part in chosen if problem in part.season.problems]
