"""Seasons, their entries and their standings."""

from datetime import datetime

from .result import Result


class SeasonEntry(Result, frozen=True, kw_only=True):
    """What a submission is to a season; `message` says why it does not count."""

    season: str
    team: str
    counts: bool
    message: str
    page: str


class SeasonBrief(Result, frozen=True, kw_only=True):
    """A season as a list shows it; `example` is not empty for an example without competitors."""

    slug: str
    title: str
    profile: str
    problems: tuple[str, ...]
    opens_at: datetime
    closes_at: datetime
    phase: str
    seconds_left: float
    example: str
    page: str


class SeasonResult(Result, frozen=True, kw_only=True):
    """A team's best entry for a problem; `counts` goes into its score."""

    problem: str
    score: float
    score_low: float
    score_high: float
    counts: float
    is_rejudged: bool


class SeasonTeam(Result, frozen=True, kw_only=True):
    """A team's line of the standings."""

    place: int
    team: str
    members: tuple[str, ...]
    score: float
    solved: int
    results: tuple[SeasonResult, ...]


class Season(SeasonBrief, frozen=True, kw_only=True):
    """A season with its rules and standings."""

    rules: str
    is_ranked_by_speed: bool
    entries: int
    entries_pending: int
    standings: tuple[SeasonTeam, ...]
