"""Shared reads of nodes and slots."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from evaluator.contract import SlotState
from portal.nodes.models import Node, Slot


def heard_since(now: datetime) -> datetime:
    """A node whose last heartbeat is older than this counts as offline at `now`."""
    return now - timedelta(seconds=settings.NODE_SILENT_SECONDS)


def is_any_node_heard(now: datetime) -> bool:
    """Whether any node, enabled or not, was heard from lately."""
    return Node.objects.filter(seen_at__gte=heard_since(now)).exists()


def online_slots(*, profile: str | None = None, now: datetime | None = None) -> QuerySet[Slot]:
    """The slots of enabled nodes that were heard from lately, those left out that are in quarantine or stopped."""
    slots = Slot.objects.select_related("node").filter(
        node__is_enabled=True, node__seen_at__gte=heard_since(now or timezone.now())
    )
    if profile is not None:
        slots = slots.filter(profile=profile)
    return slots.exclude(state__in=(SlotState.QUARANTINED, SlotState.STOPPED))


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """One node as the status page shows it; `running` counts the evaluations that hold one of its slots."""

    name: str
    is_online: bool
    is_enabled: bool
    seen_at: datetime | None
    sandbox: str
    backends: tuple[str, ...]
    slots: tuple[Slot, ...]
    running: int
    environment: dict[str, str]

    @property
    def load(self) -> float:
        """The share of slots that work, 0 to 1."""
        return self.running / len(self.slots) if self.slots else 0.0


def node_views(*, now: datetime | None = None) -> tuple[NodeView, ...]:
    """Every node, by name."""
    moment = now or timezone.now()
    working = Count("evaluations", filter=Q(evaluations__state__in=("leased", "running")))
    nodes = Node.objects.prefetch_related("slots").annotate(running=working)
    return tuple(_view(node, node.running, moment) for node in nodes)


def _view(node: Node, running: int, now: datetime) -> NodeView:
    return NodeView(
        name=node.name,
        is_online=node.seen_at is not None and node.seen_at >= heard_since(now),
        is_enabled=node.is_enabled,
        seen_at=node.seen_at,
        sandbox=node.sandbox,
        backends=tuple(node.backends),
        slots=tuple(node.slots.all()),
        running=running,
        environment=dict(node.environment),
    )
