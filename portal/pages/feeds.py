"""What readers can subscribe to."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.contrib.syndication.views import Feed
from django.http import HttpRequest
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed

from evaluator.hardware import profiles
from portal.accounts.models import User
from portal.catalog.queries import get_problem
from portal.core import speedups
from portal.core.requests import choice
from portal.ranking import people
from portal.ranking.models import Record, Standing
from portal.ranking.queries import latest_records
from problems import registry

ENTRIES = 50


class _EvaluationsFeed(Feed):  # type: ignore[type-arg]  # subscripts exist in the stubs alone
    """Results of evaluations as Atom, the newest first."""

    feed_type = Atom1Feed

    def item_guid(self, item: Record | Standing) -> str:
        """The same for as long as the evaluation lives, even when records are recomputed."""
        evaluation: uuid.UUID = item.evaluation_id
        return f"urn:uuid:{evaluation}"


def _told(item: Record | Standing) -> str:
    return speedups.in_words(item.score, item.score_low, item.score_high, profile=item.profile)


class RecordsFeed(_EvaluationsFeed):
    title = "ParallelKernelBench: new records"
    subtitle = "Entries that took the first place of their board."

    def link(self) -> str:
        return reverse("ranking:records")

    def items(self) -> Sequence[Record]:
        return list(latest_records()[:ENTRIES])

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


class BoardFeed(RecordsFeed):
    """New records of one problem: on one profile, or on all."""

    def get_object(self, _request: HttpRequest, slug: str, profile: str = "") -> tuple[str, str]:
        """Problem and profile; raises Refusal (404) for unknown ones."""
        return get_problem(slug).slug, choice({"profile": profile}, "profile", profiles.profiles())

    def title(self, board: tuple[str, str]) -> str:  # type: ignore[override]  # Django calls it with what it takes
        slug, profile = board
        return f"ParallelKernelBench: records of {registry.get(slug).title}" + (f" on {profile}" if profile else "")

    def link(self, board: tuple[str, str]) -> str:  # type: ignore[override]  # Django calls it with what it takes
        slug, profile = board
        return reverse("ranking:problem-records", args=[slug]) + (f"?profile={profile}" if profile else "")

    def items(self, board: tuple[str, str]) -> Sequence[Record]:  # type: ignore[override]  # as above
        slug, profile = board
        return list(latest_records(profile=profile or None).filter(problem=slug)[:ENTRIES])


class PersonFeed(_EvaluationsFeed):
    def get_object(self, _request: HttpRequest, username: str) -> User:
        """The author; raises Refusal (404) where there is none."""
        return people.get_person(username)

    def title(self, person: User) -> str:
        return f"ParallelKernelBench: entries of {person.username}"

    def link(self, person: User) -> str:
        return reverse("ranking:person", args=[person.username])

    def items(self, person: User) -> Sequence[Standing]:
        return people.entries_page(person, rows=ENTRIES).rows

    def item_title(self, item: Standing) -> str:
        told = _told(item) if item.score_low else "correct"
        return f"{registry.get(item.problem).title}: {told} on {item.profile}"

    def item_description(self, item: Standing) -> str:
        if not item.score_low:
            return f"Not timed, in {item.backend}."
        return f"Interval {speedups.interval(item.score_low, item.score_high)}, in {item.backend}."

    def item_link(self, item: Standing) -> str:
        return f"{reverse('ranking:board', args=[item.problem])}?profile={item.profile}"

    def item_pubdate(self, item: Standing) -> datetime:
        return item.submitted_at

    item_updateddate = item_pubdate
