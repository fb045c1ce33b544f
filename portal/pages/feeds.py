"""What readers can subscribe to."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.contrib.syndication.views import Feed
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed

from portal.ranking.models import Record
from portal.ranking.queries import latest_records
from problems import registry

ENTRIES = 50


class RecordsFeed(Feed):  # type: ignore[type-arg]  # subscripts exist in the stubs alone
    """New records on all boards, the newest first, as Atom."""

    feed_type = Atom1Feed
    title = "ParallelKernelBench: new records"
    subtitle = "Entries that took the first place of their board."

    def link(self) -> str:
        """The page that shows the same."""
        return reverse("ranking:records")

    def items(self) -> Sequence[Record]:
        """The latest records."""
        return list(latest_records()[:ENTRIES])

    def item_title(self, item: Record) -> str:
        """Who, where and how fast."""
        title = registry.get(item.problem).title
        if item.previous_low is None:
            return f"{title}: first entry on {item.profile}, by {item.author.username}"
        return f"{title}: {item.score:.3f} times the reference on {item.profile}, by {item.author.username}"

    def item_description(self, item: Record) -> str:
        """The numbers."""
        interval = f"{item.score:.3f} (interval {item.score_low:.3f} to {item.score_high:.3f})"
        before = "" if item.previous_low is None else f" The record before began at {item.previous_low:.3f}."
        return f"Speedup over the reference: {interval}, in {item.backend}.{before}"

    def item_link(self, item: Record) -> str:
        """The line of records of its board."""
        return f"{reverse('ranking:problem-records', args=[item.problem])}?profile={item.profile}"

    def item_guid(self, item: Record) -> str:
        """The same for as long as the evaluation lives, even when records are derived anew."""
        evaluation: uuid.UUID = item.evaluation_id
        return f"urn:uuid:{evaluation}"

    def item_pubdate(self, item: Record) -> datetime:
        """When it was reached."""
        return item.reached_at

    def item_updateddate(self, item: Record) -> datetime:
        """The same: records do not change."""
        return item.reached_at

    def item_author_name(self, item: Record) -> str:
        """Whose it is."""
        return item.author.username
