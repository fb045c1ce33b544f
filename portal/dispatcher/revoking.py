"""Revoking a node: its key is void at once, and other nodes judge its evaluations."""

from datetime import datetime

from django.db import transaction

from portal.nodes import actions as nodes
from portal.submissions.models import Evaluation, State
from portal.submissions.queries import HELD


def revoke(name: str, *, now: datetime) -> int:
    """Revoke a node's key; returns the number of its evaluations, which are queued again and lose no try.

    What it has judged stays as it was found, under its name: an operator who distrusts that has it judged again.

    Raises:
        portal.core.errors.Refusal: there is no such node, or it was revoked before (404).
    """
    with transaction.atomic():
        node = nodes.revoke_node(name, now=now)
        return Evaluation.objects.filter(node=node, state__in=(*HELD, State.BUILT)).update(
            state=State.QUEUED,
            node=None,
            lease=None,
            slot_index=None,
            lease_expires_at=None,
            deadline_at=None,
            started_at=None,
            stage="",
            stage_detail="Its node was taken out of service.",
            stage_fraction=None,
            stage_since=None,
        )
