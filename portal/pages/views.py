"""Home, documentation and the two addresses that machines ask."""

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from evaluator.hardware.profiles import profiles
from evaluator.judging.verdicts import FACTS
from portal.nodes.queries import online_slots
from portal.pages.search import MAX_TEXT, search
from portal.ranking.queries import latest_earlier_entries, latest_entries
from problems import registry

LATEST_ENTRIES = 8
ROBOTS = """User-agent: *
Disallow: /admin/
Disallow: /accounts/
Disallow: /submissions/
Disallow: /search/
Disallow: /api/
Disallow: /*?*after=
Disallow: /*?*before=
Allow: /
"""


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """What PKB is, how to take part, and the latest accepted entries."""
    titles = {problem.slug: problem.title for problem in registry.problems()}
    latest = latest_entries(LATEST_ENTRIES)
    context = {
        "problem_count": len(titles),
        "titles": titles,
        "latest": [entry for entry in latest if entry.problem in titles],
        "earlier": () if latest else latest_earlier_entries(LATEST_ENTRIES),
        "slot_count": online_slots().count(),
        "profiles": profiles(),
    }
    return render(request, "home.html", context)


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """How submitting, judging and ranking work."""
    context = {
        "verdicts": [(verdict.value, facts) for verdict, facts in FACTS.items()],
        "profiles": profiles().values(),
        "max_kib": settings.SUBMISSION_MAX_BYTES // 1024,
        "max_queued": settings.MAX_QUEUED_PER_AUTHOR,
        "site_url": settings.SITE_URL,
    }
    return render(request, "docs/index.html", context)


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Problems, models and people by what the reader types."""
    text = request.GET.get("q", "").replace("\0", "")[:MAX_TEXT]
    context = {"text": text, "found": search(text, viewer=request.user)}
    return render(request, "search.html", context)


@require_safe
def robots(_request: HttpRequest) -> HttpResponse:
    """What crawlers need not read: private pages, and the endless pages behind the first of a board."""
    return HttpResponse(ROBOTS, content_type="text/plain")


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
    except DatabaseError:
        return HttpResponse("the database does not answer\n", content_type="text/plain", status=503)
    return HttpResponse("ready\n", content_type="text/plain")
