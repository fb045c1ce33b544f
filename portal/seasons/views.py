"""The pages of seasons: all of them, one with its standings, and what the reader's own team has entered."""

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from evaluator.hardware import profiles
from portal.accounts.identity import changing, signed_in
from portal.accounts.models import User
from portal.accounts.organisations import get_organisation, own_organisations
from portal.charts.chart import Chart
from portal.charts.seasons import progress_chart
from portal.core.errors import NotFound
from portal.seasons import entering, queries
from portal.seasons.models import Phase, Season
from portal.seasons.queries import StandingRow
from problems import registry

DRAWN = 8
"""Teams in the chart: readers cannot distinguish more lines."""


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Every season, those that are open first."""
    now = timezone.now()
    rows = [(season, season.phase(now)) for season in Season.objects.all()]
    context = {
        "under_way": [row for row in rows if row[1] is not Phase.FINAL],
        "final": [row for row in rows if row[1] is Phase.FINAL],
        "phases": Phase,
    }
    return render(request, "seasons/index.html", context)


@require_safe
def season(request: HttpRequest, slug: str) -> HttpResponse:
    chosen, now = queries.get_season(slug), timezone.now()
    rows = queries.standings(chosen)
    phase = chosen.phase(now)
    titles = {problem.slug: problem.title for problem in registry.problems()}
    context = {
        "season": chosen,
        "phase": phase,
        "phases": Phase,
        "profile": profiles.get(chosen.profile),
        # A problem that is gone keeps its slug.
        "problems": [(slug, titles.get(slug, slug)) for slug in chosen.problems],
        "rows": rows,
        "counts": queries.counts(chosen),
        "figure": _figure(chosen, rows, now),
        **_own_part(request, chosen, phase),
    }
    return render(request, "seasons/season.html", context)


def _own_part(request: HttpRequest, chosen: Season, phase: Phase) -> dict[str, Any]:
    part = queries.part_in(chosen, request.user)
    takes_part = phase in (Phase.UPCOMING, Phase.OPEN)
    ways = own_organisations(request.user) if isinstance(request.user, User) and takes_part and part is None else ()
    return {"part": part, "organisations": list(ways), "takes_part": takes_part}


def _figure(chosen: Season, rows: tuple[StandingRow, ...], now: datetime) -> Chart | None:
    drawn = [row for row in rows if row.line.solved][:DRAWN]
    grown = queries.progress(chosen, [row.team.pk for row in drawn])
    if not any(grown.values()):
        return None
    return progress_chart(
        [(row.team.name, grown[row.team.pk]) for row in drawn],
        begin=chosen.opens_at,
        end=min(now, chosen.closes_at),
        is_speed=chosen.is_ranked_by_speed,
    )


@require_safe
@never_cache
@login_required
def own_team(request: HttpRequest, slug: str) -> HttpResponse:
    """What the reader's team has handed in, refused entries with their reasons."""
    chosen = queries.get_season(slug)
    part = queries.part_in(chosen, request.user)
    if part is None:
        remedy = f"Enter it at {chosen.get_absolute_url()} while it is open."
        raise NotFound("season", slug, "You are in no team of this season.", remedy)
    context = {
        "season": chosen,
        "part": part,
        "entries": queries.entries_of(part.team),
        "members": part.team.members.select_related("user"),
        "titles": {problem.slug: problem.title for problem in registry.problems()},
    }
    return render(request, "seasons/team.html", context)


@changing
def enter(request: HttpRequest, slug: str) -> HttpResponse:
    chosen, user = queries.get_season(slug), signed_in(request)
    wanted = request.POST.get("organisation", "")
    organisation = get_organisation(user, wanted) if wanted else None
    part = entering.enter(chosen, user, organisation=organisation, now=timezone.now())
    messages.success(request, f"You are now in {chosen.title}, in the team {part.team.name}.")
    return redirect("seasons:season", slug)


@changing
def leave(request: HttpRequest, slug: str) -> HttpResponse:
    chosen = queries.get_season(slug)
    entering.leave(chosen, signed_in(request), now=timezone.now())
    messages.success(request, f"You have left {chosen.title}.")
    return redirect("seasons:season", slug)
