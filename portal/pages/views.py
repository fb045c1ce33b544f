"""Home, the way into the boards, documentation, the operator's pages, feeds, and the addresses that machines ask."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.sitemaps import Sitemap
from django.contrib.syndication.views import Feed
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.feedgenerator import Atom1Feed
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from evaluator.contract import SCORE_RULE
from evaluator.hardware.profiles import Profile, profiles
from evaluator.judging.verdicts import FACTS
from portal.accounts.models import User, Viewer
from portal.catalog import facets, measurements, queries, rooflines
from portal.catalog.markdown import render as markdown
from portal.core import database_outage, speedups
from portal.core.errors import NotFound
from portal.exports.files import citation
from portal.manual import pages as manual
from portal.manual.search import find as find_in_manual
from portal.nodes.queries import online_slots, shown_nodes
from portal.ranking import people, published
from portal.ranking.leaders import board_counts, leaders
from portal.ranking.models import PersonStanding, Record, Standing
from portal.ranking.queries import BoardRow, latest_entries, latest_records, public_example, records_page
from portal.runs.models import Run
from portal.runs.page_data import solved_here
from portal.runs.queries import board_profiles, board_runs, model_board, visible_models
from portal.submissions.models import Visibility
from portal.submissions.queue import queue_lengths, use_of_nodes
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
    # Practice boards only where there is no entry on any other.
    newest = latest_entries(FASTEST, is_ranked_by_speed=True) or latest_entries(FASTEST, is_ranked_by_speed=False)
    latest = [entry for entry in newest if entry.problem in titles]
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
    return profiles()[queries.opening_profile(profiles(), entries=counts, last=queries.last_choice(request, counts))]


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
        "people": people.people_page(profile=profile.name, rows=HEAD_ROWS).rows,
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


def _small_roofline(profile: Profile, best: Mapping[str, BoardRow]) -> dict[str, Any]:
    """Every problem on the profile, or on the best measured one if it has no entry by the current rule."""
    has_places = profile.peaks is not None and best
    name = (
        profile.name
        if has_places
        else queries.opening_profile([each.name for each in rooflines.gpu_profiles()], entries={})
    )
    shown = profiles()[name]
    points = [point for point in rooflines.points(name, best if shown is profile else {}) if point.work.size == "base"]
    figure = rooflines.explorer_figure(points, profile=shown, axis=rooflines.Axis.WIRE, window=None)
    table = measurements.baselines(name)
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
    return render(request, "search.html", {"text": text, "found": search(text, viewer=request.user)})


@require_safe
def robots(_request: HttpRequest) -> HttpResponse:
    """What crawlers need not read: private pages, the many pages after the first of a board, what follows an entry."""
    return HttpResponse(ROBOTS + f"Sitemap: {settings.SITE_URL}{reverse('sitemap')}\n", content_type="text/plain")


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
        headers = {"Retry-After": str(database_outage.RETRY_AFTER_S)}
        return HttpResponse("the database does not respond\n", content_type="text/plain", status=503, headers=headers)
    return HttpResponse("ready\n", content_type="text/plain")


SECURITY_TXT_DAYS = 180
"""RFC 9116 wants a date after which nobody trusts the file; it moves on for as long as the site answers."""


@require_safe
def words(request: HttpRequest, name: str, title: str) -> HttpResponse:
    """The operator's words, a file in the folder `pages` of the site's data; without one, the site's own."""
    folders = (settings.DATA_DIR / "pages", Path(settings.BASE_DIR, "templates", "words"))
    file = next(path for folder in folders if (path := folder / f"{name}.md").is_file())
    return render(request, "operators_page.html", {"title": title, "text": markdown(file.read_text(encoding="utf-8"))})


@require_safe
def security_txt(_request: HttpRequest) -> HttpResponse:
    """RFC 9116: the contact for security reports."""
    if not settings.SECURITY_CONTACT:
        remedy = "Its operator can set one with PKB_SECURITY_CONTACT."
        raise NotFound("", "", "This site has no contact for security reports.", remedy)
    expires = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=SECURITY_TXT_DAYS)
    lines = (
        f"Contact: {settings.SECURITY_CONTACT}",
        f"Expires: {expires:%Y-%m-%dT%H:%M:%SZ}",
        "Preferred-Languages: en",
        f"Canonical: {settings.SITE_URL}{reverse('security-txt')}",
    )
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; charset=utf-8")


ENTRIES = 50


def _told(item: Record) -> str:
    return speedups.in_words(item.score, item.score_low, item.score_high, profile=item.profile)


class RecordsFeed(Feed):  # type: ignore[type-arg]  # subscripts exist in the stubs alone
    """New records of all boards as Atom, the newest first."""

    feed_type = Atom1Feed
    title = "ParallelKernelBench: new records"
    subtitle = "Entries that took the first place of their board."

    def link(self) -> str:
        return reverse("ranking:records")

    def items(self) -> Sequence[Record]:
        return list(latest_records()[:ENTRIES])

    def item_guid(self, item: Record) -> str:
        """The same for as long as the evaluation lives, even when records are recomputed."""
        return f"urn:uuid:{item.evaluation_id}"

    def item_title(self, item: Record) -> str:
        title = registry.get(item.problem).title
        if item.previous_low is None:
            return f"{title}: first entry on {item.profile}, by {item.author.username}"
        return f"{title}: {_told(item)} on {item.profile}, by {item.author.username}"

    def item_description(self, item: Record) -> str:
        interval = f"{_told(item)} (interval {speedups.interval(item.score_low, item.score_high)})"
        before = (
            ""
            if item.previous_low is None
            else f" The interval of the previous record began at {item.previous_low:.2f}."
        )
        return f"Speedup over the reference, all sizes: {interval}, in {item.backend}.{before}"

    def item_link(self, item: Record) -> str:
        return f"{reverse('ranking:problem-records', args=[item.problem])}?profile={item.profile}"

    def item_pubdate(self, item: Record) -> datetime:
        return item.reached_at

    item_updateddate = item_pubdate  # records do not change

    def item_author_name(self, item: Record) -> str:
        return item.author.username


_PAGES = ("home", "explorer:problems", "explorer:roofline", "explorer:taxonomy", "leaderboards")
_MOST = 5000
"""Entries and runs that are listed, the newest ones."""


class Pages(Sitemap):  # type: ignore[type-arg]  # Django does not subscript it
    """The ways in, every problem with its board, and the manual."""

    def items(self) -> Sequence[str]:
        slugs = [problem.slug for problem in registry.problems()]
        of_problems = [reverse(name, args=[slug]) for slug in slugs for name in ("explorer:problem", "ranking:board")]
        ways_in = [reverse(name) for name in (*_PAGES, "ranking:people", "ranking:open", "runs:models", "docs")]
        return [*ways_in, *of_problems, *map(manual.page_url, manual.page_paths())]

    def location(self, item: str) -> str:
        return item


class Runs(Sitemap):  # type: ignore[type-arg]  # Django does not subscript it
    """The published runs of models."""

    def items(self) -> Sequence[Run]:
        return list(board_runs().order_by("-published_at", "-id")[:_MOST])

    def location(self, item: Run) -> str:
        return reverse("runs:run", args=[item.pk])

    def lastmod(self, item: Run) -> datetime | None:
        return item.published_at


class Entries(Sitemap):  # type: ignore[type-arg]  # Django does not subscript it
    """The entries of boards whose source everybody may read."""

    def items(self) -> Sequence[Standing]:
        public = Standing.objects.filter(
            evaluation__submission__visibility=Visibility.PUBLIC, score_rule=SCORE_RULE, author__is_active=True
        )
        return list(public.select_related("evaluation").order_by("-submitted_at", "-id")[:_MOST])

    def location(self, item: Standing) -> str:
        return reverse("submissions:detail", args=[item.evaluation.submission_id])

    def lastmod(self, item: Standing) -> datetime:
        return item.submitted_at


SECTIONS = {"pages": Pages, "runs": Runs, "entries": Entries}


MAX_TEXT = 100
MAX_EACH = 25


def search(text: str, *, viewer: Viewer, most: int = MAX_EACH) -> dict[str, Any]:
    """Problems and passages of the manual that contain every word, models and people whose name contains the text.

    People are those with an accepted entry; models those with a run that `viewer` may see. Where there is nothing,
    words that no problem has give way to the closest that one has: then `instead_of` is what was typed. At most so many
    of every kind are given; `is_cut` says that there was more, `count` how many are given in all.
    """
    wanted = text.strip()[:MAX_TEXT]
    found = _find(wanted, viewer=viewer, most=most) if wanted else {"count": 0}
    if found["count"] or not wanted:
        return found
    known = facets.words()
    closest = [get_close_matches(word, known, n=1, cutoff=0.8) for word in wanted.lower().split()]
    corrected = " ".join(words[0] for words in closest if words)
    return {**_find(corrected, viewer=viewer, most=most), "instead_of": wanted} if all(closest) else found


def _find(wanted: str, *, viewer: Viewer, most: int) -> dict[str, Any]:
    people = User.objects.filter(
        is_active=True, username__icontains=wanted, pk__in=PersonStanding.objects.values("author")
    )
    found: dict[str, Any] = {
        "problems": facets.find(registry.problems(), chosen={}, search=wanted),
        "models": visible_models(viewer).filter(slug__icontains="-".join(wanted.split()))[: most + 1],
        "people": people.order_by("username")[: most + 1],
        "passages": find_in_manual(wanted, limit=most + 1),
    }
    shown = {kind: list(every)[:most] for kind, every in found.items()}
    is_cut = any(len(every) > most for every in found.values())
    return {**shown, "is_cut": is_cut, "count": sum(map(len, shown.values()))}
