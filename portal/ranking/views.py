"""The overview of all boards, and the board of one problem."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluator.contract import Backend
from evaluator.hardware import profiles
from portal.catalog.costs import judging_profiles
from portal.catalog.queries import get_problem
from portal.ranking import queries
from portal.ranking.leaders import leaders, profiles_by_speed
from portal.refusals import Refusal
from problems import registry


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """The leader of every problem on every profile that has an entry."""
    found = leaders()
    used = [profile for profile in profiles_by_speed() if any(name == profile.name for _, name in found)]
    rows = [(problem, [found.get((problem.slug, profile.name)) for profile in used]) for problem in registry.problems()]
    unsolved = sum(not any(cells) for _, cells in rows)
    context = {"profiles": used, "rows": rows, "unsolved": unsolved, "board_count": len(found)}
    return render(request, "ranking/overview.html", context)


@require_safe
def board(request: HttpRequest, slug: str) -> HttpResponse:
    """The board of one problem on one profile, of one backend or of all."""
    problem = get_problem(slug)
    choices = judging_profiles(problem)
    with_entries = queries.profiles_with_entries(slug)
    preferred = with_entries[-1] if with_entries else choices[0].name
    profile = _known(request.GET.get("profile") or preferred, [choice.name for choice in choices], field="profile")
    backend = _known(request.GET.get("backend", ""), ["", *Backend], field="backend")
    rows = queries.board(slug, profile=profile, backend=backend or None)
    context = {
        "problem": problem,
        "profile": profiles.get(profile),
        "profiles": choices,
        "with_entries": with_entries,
        "backend": backend,
        "backends": list(Backend),
        "rows": rows,
        "edges": (min([0.9, *(row.low for row in rows)]) * 0.97, max([1.1, *(row.high for row in rows)]) * 1.03),
        "revision": registry.revision(slug),
    }
    return render(request, "ranking/board.html", context)


def _known(value: str, known: list[str], *, field: str) -> str:
    if value not in known:
        raise Refusal(
            field=field,
            value=value,
            message=f"This problem has no board for the {field} {value[:40]!r}.",
            remedy=f"Known are {', '.join(str(name) for name in known if name)}.",
            status=404,
        )
    return value
