"""Home, the way into the boards, documentation, and the two addresses that machines ask."""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from evaluator.hardware.profiles import Profile, profiles
from evaluator.judging.verdicts import FACTS
from portal.catalog import rooflines
from portal.catalog.hardware import last_choice, opening_profile
from portal.catalog.measurements import baselines
from portal.catalog.rooflines import Axis, gpu_profiles
from portal.core.database_outage import RETRY_AFTER_S
from portal.exports.files import citation
from portal.manual import pages as manual
from portal.nodes.queries import online_slots, shown_nodes
from portal.pages.search import MAX_TEXT, search
from portal.ranking import published
from portal.ranking.leaders import board_counts, leaders
from portal.ranking.models import Standing
from portal.ranking.people import people_page
from portal.ranking.queries import BoardRow, latest_entries, public_example, records_page
from portal.runs.queries import board_profiles, model_board
from portal.runs.solved import solved_here
from portal.submissions.node_utilisation import use_of_nodes
from portal.submissions.queue import queue_lengths
from problems import registry

FASTEST, HEAD_ROWS = 6, 5
"""How many rows home shows, and the page of all boards of each."""
ROBOTS = """User-agent: *
Disallow: /admin/
Disallow: /accounts/
Disallow: /submissions/$
Disallow: /submissions/*?
Disallow: /submissions/*/compare/
Disallow: /submissions/*/flag/
Disallow: /problems/*/submit/
Disallow: /search/
Disallow: /api/
Allow: /api/v1/$
Disallow: /*?*after=
Disallow: /*?*before=
Allow: /
"""
SUGGESTED_EACH = 4


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """What PKB is, how to take part, the fastest kernels, and all of them under one roofline."""
    titles, profile = _titles(), _opening(request)
    best = {leader.problem: leader for leader in leaders(profile=profile.name).values()}
    results = published.figures()["results"]
    latest = _newest(titles)
    context = {
        "problem_count": len(titles),
        "titles": titles,
        "profile": profile,
        "so_far": solved_here(),
        "fastest": sorted(best.values(), key=home_order(profile))[:FASTEST],
        "latest": latest,
        "example": None if latest else public_example(),
        "slot_count": online_slots().count(),
        "latency": published.figures()["latency"],
        "published": results,
        "published_best": (results.models[0], results.of(results.models[0], published.TOTAL)),
        **_small_roofline(profile, best),
    }
    return render(request, "home.html", context)


def _titles() -> dict[str, str]:
    return {problem.slug: problem.title for problem in registry.problems()}


def _opening(request: HttpRequest) -> Profile:
    """The hardware that pages of all boards open with."""
    counts = board_counts()
    return profiles()[opening_profile(profiles(), entries=counts, last=last_choice(request, counts))]


@require_safe
def leaderboards(request: HttpRequest) -> HttpResponse:
    """The way into the boards, models first: the head of each on the profile where most has happened."""
    profile, runs = _opening(request), board_profiles()
    model_profile = profiles()[next(iter(runs), profile.name)]
    found = sorted(leaders(profile=profile.name).values(), key=lambda leader: leader.score, reverse=True)
    board = model_board(model_profile.name) if runs else []
    ranked = [row for row in board if row.figures.is_complete]
    context = {
        "profile": profile,
        "total": len(registry.problems()),
        "models": [row for row in ranked if row.prompt == ranked[0].prompt][:HEAD_ROWS],
        "incomplete": [row for row in board if not row.figures.is_complete][:HEAD_ROWS],
        "model_profile": model_profile,
        "run_count": runs.get(model_profile.name, 0),
        "leaders": found[:HEAD_ROWS],
        "people": people_page(profile=profile.name, rows=HEAD_ROWS).rows,
        "records": records_page(rows=HEAD_ROWS).rows,
        "titles": _titles(),
        "so_far": solved_here(),
    }
    return render(request, "leaderboards.html", context)


def home_order(profile: Profile) -> Callable[[BoardRow], Any]:
    """How home orders leaders: by the speedup that a warm reference leaves, or as practice boards do, the earliest."""
    if not profile.is_ranked_by_speed:
        return lambda row: row.submitted_at
    return lambda row: -min(row.score, row.warm or row.score)


def _newest(titles: Container[str]) -> list[Standing]:
    """The newest entries that this site judged; practice boards only where there is no entry on any other."""
    found = latest_entries(FASTEST, is_ranked_by_speed=True) or latest_entries(FASTEST, is_ranked_by_speed=False)
    return [entry for entry in found if entry.problem in titles]


def _small_roofline(profile: Profile, best: Mapping[str, BoardRow]) -> dict[str, Any]:
    """Every problem on the profile, or on the best measured one if it has no entry by the current rule."""
    has_places = profile.peaks is not None and best
    name = profile.name if has_places else opening_profile([each.name for each in gpu_profiles()], entries={})
    shown = profiles()[name]
    points = [point for point in rooflines.points(name, best if shown is profile else {}) if point.work.size == "base"]
    figure = rooflines.explorer_figure(points, profile=shown, axis=Axis.WIRE, window=None)
    table = baselines(name)
    return {
        "figure": replace(figure, is_wide=False, height=340),
        "has_places": bool(has_places),
        "roofline_profile": shown,
        "measured_at": table.measured_at if table else "",
    }


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    context = {
        "verdicts": [(verdict.value, facts) for verdict, facts in FACTS.items()],
        "profiles": profiles().values(),
        "max_kib": settings.SUBMISSION_MAX_BYTES // 1024,
        "unserved_hours": f"{settings.UNSERVED_HOURS:.0f}",
        "max_queued": settings.MAX_QUEUED_PER_AUTHOR,
        "site_url": settings.SITE_URL,
        "citation": citation(timezone.now()),
        "sections": manual.sections(),
    }
    return render(request, "docs/index.html", context)


@require_safe
def status(request: HttpRequest) -> HttpResponse:
    """What judges, and what waits: nodes with their slots, and queues by profile."""
    context = {"nodes": shown_nodes(), "queues": queue_lengths(), "uses": use_of_nodes(), "profiles": profiles()}
    return render(request, "nodes/status.html", context)


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Problems, models, people and pages of the manual by what the reader types; the first of each while they type."""
    text = request.GET.get("q", "").replace("\0", "")[:MAX_TEXT]
    if request.headers.get("HX-Request") == "true":
        found = search(text, viewer=request.user, most=SUGGESTED_EACH)
        return render(request, "includes/suggestions.html", {"text": text, "found": found})
    context = {"text": text, "found": search(text, viewer=request.user)}
    return render(request, "search.html", context)


@require_safe
def robots(_request: HttpRequest) -> HttpResponse:
    """What crawlers need not read: private pages, the many pages after the first of a board, what follows an entry."""
    sitemap = f"Sitemap: {settings.SITE_URL}{reverse('sitemap')}\n"
    return HttpResponse(ROBOTS + sitemap, content_type="text/plain")


@require_safe
def favicon(_request: HttpRequest) -> HttpResponse:
    """The icon, for those who ask where it always used to be."""
    return redirect(static("css/icon-180.png"), permanent=False)


@require_safe
@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """200 while the process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> HttpResponse:
    """200 while the process can serve pages, 503 while its database does not answer."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return HttpResponse("the database does not respond\n", content_type="text/plain", status=503, headers=headers)
    return HttpResponse("ready\n", content_type="text/plain")
