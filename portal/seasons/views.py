"""The pages of seasons: all of them, one with its standings, how it is made and run, and what people have entered."""

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from evaluator.hardware import profiles
from portal.accounts.identity import changing, signed_in
from portal.accounts.models import User
from portal.accounts.organisations import get_organisation, own_organisations
from portal.core.errors import by_id
from portal.seasons import actions, queries
from portal.seasons.forms import SeasonForm
from portal.seasons.models import Access, Phase
from problems import registry


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    rows = [(season, season.phase(now)) for season in queries.visible(request.user)]
    context = {
        "under_way": [row for row in rows if row[1] is not Phase.FINAL],
        "final": [row for row in rows if row[1] is Phase.FINAL],
    }
    return render(request, "seasons/index.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new(request: HttpRequest) -> HttpResponse:
    """A draft of a season, empty or a copy of an earlier one."""
    user, copied = signed_in(request), request.GET.get("copy", "")
    pattern = queries.get_season(copied, user) if copied else None
    form = SeasonForm(request.POST or None, user=user, season=pattern, is_copy=True)
    created = form.attempt(actions.define, by=user, now=timezone.now(), is_draft=True)
    if created is not None:
        messages.success(request, "The draft is stored. Look at it as participants will, then publish it.")
        return redirect("seasons:season", created.slug)
    return render(request, "seasons/form.html", {"form": form}, status=form.status)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def edit(request: HttpRequest, slug: str) -> HttpResponse:
    user = signed_in(request)
    chosen = queries.get_season(slug, user)
    queries.require_runs(chosen, user)
    form = SeasonForm(request.POST or None, user=user, season=chosen)
    if form.attempt(actions.define, by=user, now=timezone.now()) is not None:
        messages.success(request, "The season is changed.")
        return redirect("seasons:season", slug)
    return render(request, "seasons/form.html", {"form": form, "season": chosen}, status=form.status)


@changing
def take_step(request: HttpRequest, slug: str) -> HttpResponse:
    user, step = signed_in(request), request.POST.get("step", "")
    messages.success(request, actions.take(queries.get_season(slug, user), step, by=user, now=timezone.now()))
    return redirect("seasons:index") if step == "delete" else redirect("seasons:season", slug)


@require_safe
def join(request: HttpRequest) -> HttpResponse:
    """Where a code leads to its season; an empty one asks for it."""
    code = request.GET.get("code", "")
    if not code:
        return render(request, "seasons/join.html")
    found = queries.get_season_by_code(code)
    return redirect(f"{found.get_absolute_url()}?{urlencode({'code': found.code})}")


@require_safe
def season(request: HttpRequest, slug: str) -> HttpResponse:
    """A season: rules, time left, standings; for a participant what is next; for who runs it what can be done."""
    now, code = timezone.now(), request.GET.get("code", "")
    chosen = queries.get_season(slug, request.user, code=code)
    rows = queries.standings(chosen)
    phase = chosen.phase(now)
    runs, part = queries.runs(chosen, request.user), queries.part_in(chosen, request.user)
    takes_part = phase in (Phase.UPCOMING, Phase.OPEN)
    ways = own_organisations(request.user) if isinstance(request.user, User) and takes_part and part is None else ()
    is_inside = runs or part is not None or chosen.access != Access.CODE
    shows_board = is_inside and queries.shows_board(chosen, request.user, now)
    own_row = next((row for row in rows if part is not None and row.team.pk == part.team_id), None)
    problems, own = [_problem(each) for each in chosen.problems], own_row.line.results if own_row else ()
    context = {
        "runs": runs,
        "code": chosen.code if runs else code,
        "steps": [(name, step.label) for name, step in actions.STEPS.items() if phase in step.phases],
        "is_inside": is_inside,
        "shows_board": shows_board,
        "own_row": own_row,
        "next_problem": next((problem for problem, result in zip(problems, own, strict=False) if result is None), None),
        "readers": queries.readers(chosen),
        "changed": queries.changed_problems(chosen, timezone.now()),
        "closed_accounts": chosen.members.filter(user__is_active=False).count(),
        "waiting": queries.last_to_wait(chosen),
        "season": chosen,
        "phase": phase,
        "profile": profiles.get(chosen.profile),
        "problems": problems,
        "titles": dict(enumerate(title for _, title in problems)),
        "rows": rows,
        "counts": queries.counts(chosen),
        "part": part,
        "organisations": list(ways),
        "takes_part": takes_part,
    }
    return render(request, "seasons/season.html", context)


@require_safe
@never_cache
def people(request: HttpRequest, slug: str) -> HttpResponse:
    """People by problems; the API has them as CSV and as JSON Lines."""
    chosen = queries.get_season(slug, request.user)
    queries.require_board(chosen, request.user, timezone.now())
    rows = [
        (
            name,
            [(problem, cells.get(problem)) for problem in chosen.problems],
            sum(cell["result"] is not None for cell in cells.values()),
        )
        for name, cells in queries.people(chosen).items()
    ]
    context = {
        "season": chosen,
        "problems": [_problem(each) for each in chosen.problems],
        "rows": sorted(rows, key=lambda row: -row[2]),
        "runs": queries.runs(chosen, request.user),
    }
    return render(request, "seasons/people.html", context)


@require_safe
@never_cache
@login_required
def history(request: HttpRequest, slug: str, username: str) -> HttpResponse:
    """All entries of one person, for themselves and for who runs the season."""
    user = signed_in(request)
    chosen = queries.get_season(slug, user)
    if username != user.username:
        queries.require_runs(chosen, user)
    member = by_id(
        chosen.members.filter(user__is_active=True).select_related("user"),
        "username",
        username,
        "Nobody of this name takes part.",
        "The season's people are listed.",
        column="user__username",
    )
    found = queries.entries_of(chosen, member.user)
    context = {
        "season": chosen,
        "title": username,
        "readers": queries.readers(chosen),
        "runs": queries.runs(chosen, user),
        "entries": [entry for entry in found if request.GET.get("problem", entry.problem) == entry.problem],
        "titles": {problem.slug: problem.title for problem in registry.problems()},
    }
    return render(request, "seasons/history.html", context)


def _problem(slug: str) -> tuple[str, str]:
    """Slug and title; a problem that is gone keeps its slug."""
    known = {problem.slug: problem.title for problem in registry.problems()}
    return slug, known.get(slug, slug)


@changing
def enter(request: HttpRequest, slug: str) -> HttpResponse:
    user, code = signed_in(request), request.POST.get("code", "")
    chosen = queries.get_season(slug, user, code=code)
    wanted = request.POST.get("organisation", "")
    organisation = get_organisation(user, wanted) if wanted else None
    part = actions.enter(chosen, user, organisation=organisation, now=timezone.now(), code=code)
    messages.success(request, f"You are now in {chosen.title}, in the team {part.team.name}.")
    return redirect("seasons:season", slug)


@changing
def leave(request: HttpRequest, slug: str) -> HttpResponse:
    chosen = queries.get_season(slug, signed_in(request))
    actions.leave(chosen, signed_in(request), now=timezone.now())
    messages.success(request, f"You have left {chosen.title}.")
    return redirect("seasons:season", slug)
