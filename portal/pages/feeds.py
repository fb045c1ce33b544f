"""What readers can subscribe to, and what search engines may list."""

from collections.abc import Sequence
from datetime import datetime

from django.contrib.sitemaps import Sitemap
from django.contrib.syndication.views import Feed
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed

from evaluator.contract import SCORE_RULE
from portal.core import speedups
from portal.manual.pages import page_paths, page_url
from portal.ranking.models import Record, Standing
from portal.ranking.queries import latest_records
from portal.runs.models import Run
from portal.runs.queries import board_runs
from portal.submissions.models import Visibility
from problems import registry

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
        return [*ways_in, *of_problems, *map(page_url, page_paths())]

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
