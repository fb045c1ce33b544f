"""What search engines may list: pages for everybody, problems, published runs and entries with a public source."""

from collections.abc import Sequence
from datetime import datetime

from django.contrib.sitemaps import Sitemap
from django.urls import reverse

from evaluator.contract import SCORE_RULE
from portal.manual.pages import page_paths, page_url
from portal.ranking.models import Standing
from portal.runs.models import Run
from portal.runs.queries import board_runs
from portal.submissions.models import Visibility
from problems import registry

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
