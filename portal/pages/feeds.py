"""What readers can subscribe to."""

from collections.abc import Sequence
from datetime import datetime

from django.contrib.syndication.views import Feed
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed

from portal.core import speedups
from portal.ranking.models import Record
from portal.ranking.queries import latest_records
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
