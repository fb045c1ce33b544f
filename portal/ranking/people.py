"""The board of people: who solved how many problems on a profile, and how many faster than the reference."""

from evaluator.hardware import profiles
from portal.accounts.models import User
from portal.core.errors import by_id
from portal.core.pagination import Ordering, Page, page_of
from portal.ranking import queries
from portal.ranking.models import PEOPLE_ORDER, PersonStanding, Record, Standing

PAGE_ROWS, ENTRY_ROWS = 50, 25


_BY_PLACE = Ordering[PersonStanding](columns=PEOPLE_ORDER)
_NEWEST = Ordering[Standing](columns=("-submitted_at", "-id"))
_SHOWN = (
    *("problem", "profile", "backend", "score", "score_low", "score_high", "submitted_at"),
    *("evaluation__submission", "evaluation__recorded_on", "evaluation__recorded_where"),
)
"""What a person's page shows of an entry: its report's sizes and all else of three models stay unread."""


def people_page(*, profile: str, after: str = "", before: str = "", rows: int = PAGE_ROWS) -> Page[PersonStanding]:
    """The part of a profile's board of people that the cursors ask for; raises Refusal."""
    everyone = PersonStanding.objects.filter(profile=profile, author__is_active=True).select_related("author")
    return page_of(everyone, _BY_PLACE, after=after, before=before, rows=rows)


def get_person(username: str) -> User:
    """The author called `username`; raises Refusal (404) where there is none or the account is closed."""
    message, remedy = "There is no account of this name.", "Search for part of the name."
    return by_id(User.objects.filter(is_active=True), "username", username, message, remedy, column="username")


def totals_of(person: User) -> list[PersonStanding]:
    """What `person` has reached, in the order of the profiles."""
    rows = {row.profile: row for row in PersonStanding.objects.filter(author=person)}
    return [rows[name] for name in profiles.profiles() if name in rows]


def entries_page(person: User, *, after: str = "", before: str = "", rows: int = ENTRY_ROWS) -> Page[Standing]:
    """The page that the cursors ask for of the entries of `person` on boards of the current rule, newest first.

    Raises:
        Refusal: a cursor is not one of ours (404).
    """
    found = Standing.objects.filter(author=person, **queries.current()).select_related("evaluation")
    return page_of(found.only(*_SHOWN), _NEWEST, after=after, before=before, rows=rows, counts=False)


def records_of(person: User, *, most: int = 10) -> list[Record]:
    """The last records that `person` reached on boards that speed orders, the newest first."""
    by_speed = [name for name, profile in profiles.profiles().items() if profile.is_ranked_by_speed]
    found = Record.objects.filter(author=person, profile__in=by_speed, **queries.current())
    return list(found.order_by("-reached_at", "-id")[:most])
