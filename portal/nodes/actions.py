"""Every write to nodes and slots."""

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from evaluator.contract import NodeStatus
from evaluator.hardware import profiles
from portal.accounts.models import Organisation
from portal.nodes.models import Node, Slot
from portal.refusals import Refusal

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?")


def register_node(name: str, *, owner: Organisation | None = None, allowed_profiles: Sequence[str] = ()) -> str:
    """Register a node called `name`; returns its key, which is not stored.

    With an `owner` it is a guest: it judges for that owner's boards alone, and only the profiles named.

    Raises:
        Refusal: the name is malformed, or taken (409); a profile is unknown, or a guest has none.
    """
    _check_profiles(owner, allowed_profiles)
    if not _NAME.fullmatch(name):
        raise Refusal(
            field="name",
            value=name,
            message="This is not a valid name of a node.",
            remedy="Use lower-case letters, digits and inner hyphens, at most 60.",
        )
    key = _new_key()
    try:
        with transaction.atomic():
            Node.objects.create(name=name, key_digest=_digest(key), owner=owner, profiles=list(allowed_profiles))
    except IntegrityError as error:
        raise Refusal(
            field="name",
            value=name,
            message="A node of this name exists already.",
            remedy="Choose another name, or replace its key with --new-key.",
            status=409,
        ) from error
    return key


def replace_key(name: str) -> str:
    """Give a node a new key; the old one is void at once.

    Raises:
        Refusal: there is no such node (404).
    """
    key = _new_key()
    if not Node.objects.filter(name=name, revoked_at=None).update(key_digest=_digest(key)):
        raise _unknown(name)
    return key


def revoke_node(name: str, *, now: datetime) -> Node:
    """Void a node's key. `portal.dispatcher.revoking` takes back its evaluations.

    Raises:
        Refusal: there is no such node, or it was revoked before (404).
    """
    if not Node.objects.filter(name=name, revoked_at=None).update(revoked_at=now, is_enabled=False, key_digest=""):
        raise _unknown(name)
    node = Node.objects.get(name=name)
    node.slots.all().delete()
    return node


def _unknown(name: str) -> Refusal:
    return Refusal(
        field="name",
        value=name,
        message="There is no such node, or it was revoked.",
        remedy="Register the node first. A revoked node needs another name.",
        status=404,
    )


def _check_profiles(owner: Organisation | None, allowed_profiles: Sequence[str]) -> None:
    known = ", ".join(profiles.profiles())
    if owner is not None and not allowed_profiles:
        raise Refusal(
            field="profiles",
            value="",
            message="A guest node needs a list of the profiles that it may offer.",
            remedy=f"Choose from {known}.",
        )
    for name in allowed_profiles:
        if name not in profiles.profiles():
            raise Refusal(
                field="profiles", value=name, message="There is no such profile.", remedy=f"Choose one of {known}."
            )


def has_key(node: Node, key: str) -> bool:
    """Whether `key` is the node's; a revoked node has none."""
    # Compared in the same time however much of it is right.
    return node.revoked_at is None and hmac.compare_digest(node.key_digest, _digest(key))


def nodes_for_update(names: Collection[str]) -> dict[str, Node]:
    """The nodes of these names with their slots, locked until the open transaction ends."""
    # Without a lock on their keys: a dispatcher that gives a node work would wait for it.
    locked = Node.objects.select_for_update(no_key=True).filter(name__in=names).order_by("pk")
    return {node.name: node for node in locked.prefetch_related("slots")}


def is_authentic(status: NodeStatus, node: Node | None) -> bool:
    """Whether a heartbeat has the key of its node, and is not of a revoked one; else there is a warning in the log."""
    # The comparison takes the same time however much of the key is right, and an unknown name takes it too.
    known = node.key_digest if node is not None else _digest("")
    if not hmac.compare_digest(known, _digest(status.key)) or node is None or node.revoked_at is not None:
        logger.warning("heartbeat with a wrong key for node %s; ignored", status.node[:60])
        return False
    return True


def record_node_statuses(heard: Mapping[Node, NodeStatus], now: datetime) -> None:
    """Store heartbeats at `now`: what nodes offer and the state of their slots. Runs in a transaction.

    Only what differs is written, and the time.

    Args:
        heard: the last heartbeat of each node, by nodes that `nodes_for_update` returned.
        now: when they were heard.
    """
    _record_slots(heard)
    for node, status in heard.items():
        offered = _offered(status)
        if any(getattr(node, name) != value for name, value in offered.items()):
            Node.objects.filter(pk=node.pk).update(**offered)
    Node.objects.filter(pk__in=[node.pk for node in heard]).update(seen_at=now)


def _offered(status: NodeStatus) -> dict[str, Any]:
    return {
        "sandbox": status.sandbox.value,
        "backends": [backend.value for backend in status.backends],
        "revisions": status.revisions,
        "environment": status.environment,
        "builders": status.builders,
    }


def _record_slots(heard: Mapping[Node, NodeStatus]) -> None:
    changed: list[Slot] = []
    gone: list[int] = []
    for node, status in heard.items():
        known = {slot.index: slot for slot in node.slots.all()}
        offered = {slot.index: slot for slot in status.slots if _may_offer(node, slot.profile)}
        for index, slot in offered.items():
            said = {"profile": slot.profile, "state": slot.state.value, "note": slot.note[:300]}
            row = known.get(index)
            if row is None or any(getattr(row, name) != value for name, value in said.items()):
                changed.append(Slot(node=node, index=index, **said))
        gone += [row.pk for index, row in known.items() if index not in offered]
    if changed:
        Slot.objects.bulk_create(
            changed,
            update_conflicts=True,
            unique_fields=("node", "index"),
            update_fields=("profile", "state", "note"),
        )
    if gone:
        Slot.objects.filter(pk__in=gone).delete()


def _may_offer(node: Node, profile: str) -> bool:
    """Whether a node may judge a profile. One that is unknown, or not the operator's choice, is logged and left out."""
    chosen = node.profiles or (profiles.profiles() if node.owner_id is None else ())
    is_allowed = profile in chosen
    if not is_allowed:
        logger.warning("node %s offers the profile %s, which it was not registered for; ignored", node, profile[:40])
    return is_allowed


def _new_key() -> str:
    return f"pkn_{secrets.token_urlsafe(32)}"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
