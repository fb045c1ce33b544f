"""The score of a season, as pure functions.

    S = (s_1 * s_2 * ... * s_P) ** (1 / P)

over the season's P problems, where s_p is the lower end of the interval of the team's best entry for problem p. It is 1
where the team has none or is slower than the reference. A geometric mean, because speedups multiply: twice as fast on
one problem weighs the same on every problem, and the scores of others change nothing. (Points by rank do both wrong.)
At least 1, so that holding back a slow but correct program is never an advantage.

Where what counts is correctness, or the profile is not ranked by speed, the number of problems solved decides
instead of S. There a team's first accepted entry counts: a later, quicker one costs it no time.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, kw_only=True)
class Result:
    """What an accepted entry of a team has reached on a problem.

    `score` and its interval are None where nothing was timed. `is_by_speed` says whether they count. `limit` is the
    most it may count, None for no limit: what was not judged again counts no more than the slowest that was. `entry` is
    the entry's key.
    """

    team: int
    problem: str
    score: float | None
    low: float | None
    high: float | None
    entered_at: datetime
    entry: int
    submission_id: UUID
    evaluation_id: UUID
    author: str
    is_source_public: bool
    is_by_speed: bool = True
    is_rejudged: bool = False
    limit: float | None = None

    @property
    def speed(self) -> float:
        """What it counts: the lower end of its interval, at least 1."""
        if self.low is None or not self.is_by_speed:
            return 1.0
        return max(1.0, self.low if self.limit is None else min(self.low, self.limit))

    @property
    def order(self) -> tuple[float, datetime, int]:
        """Lower goes first on its problem."""
        low = self.low if self.is_by_speed and self.low is not None else 0.0
        return (-low, self.entered_at, self.entry)

    @property
    def is_limited(self) -> bool:
        """Whether it counts less than it reached."""
        return self.speed < replace(self, limit=None).speed


@dataclass(frozen=True, kw_only=True)
class TeamScore:
    """A team's line: its place, S, and its best result per problem, None where it has none."""

    place: int = 0
    team: int
    score: float
    solved: int
    reached_at: datetime | None
    results: tuple[Result | None, ...]


def best_results(results: Iterable[Result]) -> dict[tuple[int, str], Result]:
    """Each team's best result per problem: the higher lower end where speed counts, else the earlier one."""
    best: dict[tuple[int, str], Result] = {}
    for result in results:
        current = best.get((result.team, result.problem))
        if current is None or result.order < current.order:
            best[result.team, result.problem] = result
    return best


def leaders(best: Mapping[tuple[int, str], Result], *, problem: str, count: int) -> list[Result]:
    """The `count` best teams' results on a problem, best first."""
    return sorted((result for result in best.values() if result.problem == problem), key=lambda result: result.order)[
        :count
    ]


def geometric_mean(speeds: Iterable[float], *, problems: int) -> float:
    """S of the speeds of what was solved; the other problems count 1."""
    return math.exp(sum(map(math.log, speeds)) / problems)


def standings(
    teams: Iterable[int], best: Mapping[tuple[int, str], Result], *, problems: Sequence[str], by_speed: bool
) -> tuple[TeamScore, ...]:
    """Every team's line, best first: by S (or by what was solved), then by problems solved, then who was earlier."""
    lines = [_line(team, best, problems) for team in teams]
    lines.sort(
        key=lambda line: (
            # Rounded, so that the order of a product's factors decides nothing.
            -round(line.score, 9) if by_speed else 0.0,
            -line.solved,
            line.reached_at.timestamp() if line.reached_at else math.inf,
            line.team,
        )
    )
    return tuple(replace(line, place=place) for place, line in enumerate(lines, start=1))


def _line(team: int, best: Mapping[tuple[int, str], Result], problems: Sequence[str]) -> TeamScore:
    results = tuple(best.get((team, problem)) for problem in problems)
    found = [result for result in results if result is not None]
    return TeamScore(
        team=team,
        score=geometric_mean((result.speed for result in found), problems=len(problems)),
        solved=len(found),
        reached_at=max((result.entered_at for result in found), default=None),
        results=results,
    )
