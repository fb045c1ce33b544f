"""The board of people: who solved how many problems on a profile, and how many faster than the reference."""

from dataclasses import dataclass
from datetime import datetime

from evaluator.hardware import profiles
from portal.accounts.models import User
from portal.ranking import cursors
from portal.ranking.models import PersonStanding, Standing
from portal.ranking.order import PEOPLE_ORDER, beyond
from portal.refusals import Refusal
from problems import registry

PAGE_ROWS = 50
ENTRIES_SHOWN = 200
_KINDS = (int, int, datetime, int)


@dataclass(frozen=True, kw_only=True)
class PersonRow:
    """One line of the board of people."""

    place: int
    author: str
    solved: int
    faster: int
    mean_score: float
    reached_at: datetime


@dataclass(frozen=True, kw_only=True)
class PeoplePage:
    """A part of the board of people; `after` leads to the next part and is None on the last one."""

    rows: tuple[PersonRow, ...]
    after: str | None
    is_first: bool


def people_page(*, profile: str, after: str = "", rows: int = PAGE_ROWS) -> PeoplePage:
    """The part of a profile's board of people that begins after the row that the cursor names; raises Refusal."""
    everyone = PersonStanding.objects.filter(profile=profile, author__is_active=True)
    ahead = 0
    entries = everyone
    if after:
        values = cursors.decode(after, kinds=_KINDS)
        reverse = [name[1:] if name.startswith("-") else f"-{name}" for name in PEOPLE_ORDER]
        ahead = everyone.filter(beyond(reverse, values)).count() + 1
        entries = everyone.filter(beyond(PEOPLE_ORDER, values))
    found = list(entries.select_related("author").order_by(*PEOPLE_ORDER)[: rows + 1])
    shown = found[:rows]
    return PeoplePage(
        rows=tuple(_row(person, place) for place, person in enumerate(shown, start=ahead + 1)),
        after=_cursor(shown[-1]) if len(found) > rows else None,
        is_first=not after,
    )


def profiles_with_people() -> frozenset[str]:
    """The profiles on which somebody has solved something."""
    return frozenset(PersonStanding.objects.order_by().values_list("profile", flat=True).distinct())


def get_person(username: str) -> User:
    """The author called `username`; raises Refusal (404) where there is none or the account is closed."""
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None:
        raise Refusal(
            field="username",
            value=username,
            message="Nobody of this name takes part.",
            remedy="Search for a part of the name.",
            status=404,
        )
    return person


def totals_of(person: User) -> list[PersonStanding]:
    """What `person` has reached, in the order of the profiles."""
    rows = {row.profile: row for row in PersonStanding.objects.filter(author=person)}
    return [rows[name] for name in profiles.profiles() if name in rows]


def entries_of(person: User) -> list[Standing]:
    """The standings of `person` at the problems' present revisions, the newest first, up to `ENTRIES_SHOWN`."""
    current = [registry.revision(problem.slug) for problem in registry.problems()]
    found = Standing.objects.filter(author=person, problem_revision__in=current)
    return list(found.select_related("evaluation__submission").order_by("-submitted_at", "-id")[:ENTRIES_SHOWN])


def _row(person: PersonStanding, place: int) -> PersonRow:
    return PersonRow(
        place=place,
        author=person.author.username,
        solved=person.solved,
        faster=person.faster,
        mean_score=person.mean_score,
        reached_at=person.reached_at,
    )


def _cursor(person: PersonStanding) -> str:
    return cursors.encode([getattr(person, name.lstrip("-")) for name in PEOPLE_ORDER])
