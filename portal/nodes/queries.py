"""Shared reads of nodes and slots."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from evaluator.contract import SlotState
from portal.accounts.models import Organisation
from portal.core.errors import by_id
from portal.nodes.models import Node, Slot


def offline_before(now: datetime) -> datetime:
    """A node whose last heartbeat is older than this counts as offline at `now`."""
    return now - timedelta(seconds=settings.NODE_SILENT_SECONDS)


def online_slots(
    *, profile: str | None = None, now: datetime | None = None, owner_id: int | None = None
) -> QuerySet[Slot]:
    """The slots online of the site's own nodes, or of the guests of one owner."""
    slots = all_online_slots(now=now).filter(node__owner=owner_id)
    return slots if profile is None else slots.filter(profile=profile)


def online_profiles() -> frozenset[str]:
    """The profiles that the site's own nodes serve now."""
    return frozenset(online_slots().values_list("profile", flat=True))


def all_online_slots(*, now: datetime | None = None) -> QuerySet[Slot]:
    """The slots of enabled nodes with recent heartbeats, guests included; without quarantined or stopped ones."""
    return slots_of_online_nodes(now=now).exclude(state__in=(SlotState.QUARANTINED, SlotState.STOPPED))


def slots_of_online_nodes(*, now: datetime | None = None) -> QuerySet[Slot]:
    """The slots of enabled nodes with recent heartbeats, those included that take no work."""
    return Slot.objects.select_related("node").filter(
        node__is_enabled=True, node__revoked_at=None, node__seen_at__gte=offline_before(now or timezone.now())
    )


def shown_nodes() -> QuerySet[Node, Any]:
    """Every node with its owner and slots, `running`: the evaluations in these, and `is_online` by its heartbeats."""
    working = Count("evaluations", filter=Q(evaluations__state__in=("leased", "running")))
    is_heard = Q(seen_at__isnull=False, seen_at__gte=offline_before(timezone.now()))
    return Node.objects.select_related("owner").prefetch_related("slots").annotate(running=working, is_online=is_heard)


def guests_for(*names: str) -> QuerySet[Organisation]:
    """Whose nodes may judge one of these profiles beside the site's own, whether online or not."""
    nodes = Node.objects.filter(owner__isnull=False, is_enabled=True, revoked_at=None)
    fitting = (node for node in nodes if not set(names).isdisjoint(node.profiles))
    return Organisation.objects.filter(pk__in={node.owner_id for node in fitting if node.owner_id is not None})


def guest_owner(slug: str) -> Organisation:
    """The organisation of that name, if a node of its own is or was registered; raises Refusal (404)."""
    owners = Organisation.objects.filter(nodes__isnull=False).distinct()
    message = "No organisation of this name has a node here."
    remedy = "The page of nodes lists the organisations that have one."
    return by_id(owners, "node_owner", slug, message, remedy, column="slug")
