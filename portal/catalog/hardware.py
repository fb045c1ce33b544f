"""Which hardware a page opens with where its address names none: one rule for every page that shows one profile."""

from collections.abc import Iterable, Mapping

from django.http import HttpRequest, HttpResponse

from evaluator.contract import SCORE_RULE
from evaluator.hardware.profiles import Profile, profiles
from portal.catalog.measurements import baselines, public_references
from portal.core.errors import choice
from portal.nodes.queries import online_slots

COOKIE = "hardware"
_LASTS_S = 180 * 24 * 3600


def last_choice(request: HttpRequest, names: Iterable[str]) -> str:
    """The profile that this browser chose last, on whichever page; empty where `names` does not have it."""
    chosen = request.COOKIES.get(COOKIE, "")
    return chosen if chosen in names else ""


def remember(response: HttpResponse, profile: str, *, is_secure: bool) -> None:
    """Have the browser keep `profile` as its last choice."""
    response.set_cookie(COOKIE, profile, max_age=_LASTS_S, httponly=True, samesite="Lax", secure=is_secure)


def chosen_profile(
    request: HttpRequest, names: Iterable[str], *, entries: Mapping[str, int], message: str, problem: str = ""
) -> Profile:
    """The profile that the address asks for, else `opening_profile`.

    Raises:
        Refusal: it asks for one that is none of `names` (404), with `message`.
    """
    opening = opening_profile(names, entries=entries, problem=problem, last=last_choice(request, names))
    return profiles()[choice(request.GET, "profile", names, opening=opening, message=message)]


def opening_profile(names: Iterable[str], *, entries: Mapping[str, int], problem: str = "", last: str = "") -> str:
    """The profile of `names` that a page opens with.

    It is the reader's `last` choice if there is one. Of the profiles with `entries` it is the one with most, those
    ranked by speed first. Without any it is where the reference was measured best, else one that is online, else the
    first.

    Args:
        names: the profiles that the page could show, at least one.
        entries: how many entries, boards or runs each profile has.
        problem: where the page is about one problem, its reference has to be measured.
        last: what `last_choice` says.
    """
    known = list(names)
    if last:
        return last
    used = [name for name in known if entries.get(name)]
    if used:
        return max(used, key=lambda name: (profiles()[name].is_ranked_by_speed, entries[name]))
    measured = _best_measured(known, problem=problem)
    if measured:
        return measured
    online = set(online_slots().values_list("profile", flat=True))
    return next((name for name in known if name in online), known[0])


def _best_measured(names: Iterable[str], *, problem: str) -> str:
    """The last of `names` with measured times, of the problem if one is named; empty if there is none.

    Our baselines are preferred to public references, and those by the current rule to earlier ones.
    """
    ours, present, public = [], [], []
    for name in names:
        table, theirs = baselines(name), public_references(name)
        if table is not None and (not problem or problem in table.baselines):
            ours.append(name)
            present += [name] * (table.rule == SCORE_RULE)
        if theirs is not None and (not problem or problem in theirs.median_us):
            public.append(name)
    return (present or ours or public or [""])[-1]
