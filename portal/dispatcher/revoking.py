"""Revoking a node: its key is void at once, and other nodes judge its evaluations."""

from datetime import datetime

from django.db import transaction

from portal.nodes import actions as nodes
from portal.submissions import lifecycle


def revoke(name: str, *, now: datetime) -> int:
    """Revoke a node's key; returns the number of its evaluations, which are queued again and lose no try.

    What it has judged stays as it was found, under its name: an operator who distrusts that has it judged again.

    Raises:
        portal.core.errors.Refusal: there is no such node, or it was revoked before (404).
    """
    with transaction.atomic():
        node = nodes.revoke_node(name, now=now)
        return lifecycle.release_node(node)
