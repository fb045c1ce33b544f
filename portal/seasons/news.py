"""What happened in a season, for its feed."""

from dataclasses import dataclass
from datetime import datetime

from portal.seasons import queries, scoring
from portal.seasons.models import Season
from portal.seasons.scoring import Result


@dataclass(frozen=True, kw_only=True)
class News:
    season: Season
    key: str
    at: datetime
    title: str
    text: str


def news_of(season: Season, *, now: datetime) -> list[News]:
    """What happened until `now`, the newest first."""
    found = [_news(season, "opened", season.opens_at, "is open", "Enter a team and submit.")]
    found += _leads(season)
    found.append(
        _news(season, "closed", season.closes_at, "has closed", "Everything submitted before the end is still judged.")
    )
    if season.rejudge_at:
        text = "The best entries of every problem are judged on fresh inputs."
        found.append(_news(season, "rejudge", season.rejudge_at, "judges its leaders again", text))
    if season.final_at:
        found.append(_news(season, "final", season.final_at, "is final", _final(season)))
    return sorted((each for each in found if each.at <= now), key=lambda each: each.at, reverse=True)


def _news(season: Season, key: str, at: datetime, what: str, text: str) -> News:
    return News(season=season, key=key, at=at, title=f"{season.title} {what}", text=text)


def _final(season: Season) -> str:
    rows = [row for row in queries.standings(season) if row.line.solved][:3]
    return "; ".join(f"{row.line.place}. {row.team.name}" for row in rows) or "No problem was solved."


def _leads(season: Season) -> list[News]:
    leading: dict[str, Result] = {}
    found = []
    names = dict(season.teams.values_list("pk", "name"))
    for result in queries.results_in_order(season):
        before = leading.get(result.problem)
        if before is not None and scoring.is_ahead(before, result):
            continue
        leading[result.problem] = result
        if before is None or before.team != result.team:
            what, interval = f"is the first to solve {result.problem}", ""
            if result.is_by_speed:
                what = f"leads {result.problem} at {result.score:.3f} times the reference"
                interval = f"Interval {result.low:.3f} to {result.high:.3f}. "
            found.append(
                News(
                    season=season,
                    key=f"lead-{result.entry}",
                    at=result.entered_at,
                    title=f"{names[result.team]} {what}",
                    text=f"{interval}On {season.profile}.",
                )
            )
    return found
