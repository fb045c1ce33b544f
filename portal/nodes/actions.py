"""Every write to nodes and slots."""

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F, Value
from kombu.exceptions import KombuError

from evaluator.broker.queues import address_of, work_queue
from evaluator.contract import Assignment, BuildOrder, Cancellation, NodeStatus, TaskName
from evaluator.hardware import profiles
from portal.accounts.models import Organisation
from portal.celery import app
from portal.core import metrics
from portal.core.errors import Conflict, NotFound, NotSignedIn, Refusal, check_choice
from portal.nodes.models import Node, Slot

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?")


_NO_KEY = "-" * 64
"""As long as a digest, and no key's."""

_REFUSALS, _REFUSAL_CHARACTERS = 5, 500
"""How many refused messages of a node operators are shown, and how much of each."""


def register_node(name: str, *, owner: Organisation | None = None, allowed_profiles: Sequence[str] = ()) -> str:
    """Register a node called `name`; returns its key, which is not stored.

    With an `owner` it is a guest: it judges for that owner's boards alone, and only the profiles named.

    Raises:
        Refusal: the name is malformed, or taken (409); a profile is unknown, or a guest has none.
    """
    if owner is not None and not allowed_profiles:
        remedy = f"Choose from {', '.join(profiles.profiles())}."
        raise Refusal("profiles", "", "A guest node needs a list of the profiles that it may offer.", remedy)
    for profile in allowed_profiles:
        check_choice("profiles", profile, profiles.profiles(), noun="profile")
    if not _NAME.fullmatch(name):
        message = "This is not a valid name of a node."
        raise Refusal("name", name, message, "Use lower-case letters, digits and inner hyphens, at most 60.")
    key = _new_key()
    try:
        with transaction.atomic():
            Node.objects.create(name=name, key_digest=_digest(key), owner=owner, profiles=list(allowed_profiles))
    except IntegrityError as error:
        message = "A node of this name exists already."
        raise Conflict("name", name, message, "Choose another name, or replace its key with --new-key.") from error
    return key


def replace_key(name: str, *, at_once: bool = False) -> str:
    """Give a node a new key. The old one is good until the new one is first used; `at_once`, it is void now.

    Raises:
        Refusal: there is no such node (404).
    """
    key = _new_key()
    earlier = Value("") if at_once else F("key_digest")
    if not Node.objects.filter(name=name, revoked_at=None).update(earlier_key_digest=earlier, key_digest=_digest(key)):
        raise _unknown(name)
    return key


def revoke_node(name: str, *, now: datetime) -> Node:
    """Void a node's key. `portal.dispatcher.leases.revoke` takes back its evaluations.

    Raises:
        Refusal: there is no such node, or it was revoked before (404).
    """
    # Its digest stays: who has the key is told that it was revoked.
    if not Node.objects.filter(name=name, revoked_at=None).update(
        revoked_at=now, is_enabled=False, earlier_key_digest=""
    ):
        raise _unknown(name)
    node = Node.objects.get(name=name)
    node.slots.all().delete()
    return node


def _unknown(name: str) -> Refusal:
    message = "There is no such node, or it was revoked."
    return NotFound("name", name, message, "Register the node first. A revoked node needs another name.")


def authenticate(name: str, key: str) -> Node:
    """The node called `name`, whose key this is.

    Raises:
        Refusal: the key is not that node's, or there is no such node (401); the node was revoked (410).
    """
    node = Node.objects.filter(name=name).first()
    digest = _digest(key)
    current, earlier = (node.key_digest, node.earlier_key_digest) if node is not None else ("", "")
    # Each comparison takes the same time however much of the key is right, and an unknown name takes it too.
    is_current = hmac.compare_digest(current or _NO_KEY, digest)
    is_earlier = hmac.compare_digest(earlier or _NO_KEY, digest)
    if node is None or not (is_current or is_earlier):
        logger.warning("a message with a wrong key for node %s is refused", name[:60])
        message = f"This is not the key of a node called {name[:60]}."
        remedy = "Check PKB_NODE_NAME and PKB_NODE_KEY. `manage.py node_add NAME --new-key` makes a new key."
        raise NotSignedIn("Authorization", f"{key[:8]}...", message, remedy)
    if node.revoked_at is not None:
        message = f"Node {name} was revoked on {node.revoked_at:%Y-%m-%d}. It gets no more work."
        remedy = "Stop it. The site's operator can register the machine under another name."
        raise Refusal("Authorization", f"{key[:8]}...", message, remedy, status=410)
    if is_current and node.earlier_key_digest:
        Node.objects.filter(pk=node.pk, key_digest=digest).update(earlier_key_digest="")
    return node


def check_name(node: Node, named: str, *, kind: str) -> None:
    """Refuse a message of `node`, such as a report, that names another."""
    if named != node.name:
        metrics.refused_messages.labels(kind, "forged name").inc()
        message = f"The {kind} names another node than {node.name}, whose key it came with."
        remedy = f"Send the {kind}s of a node under its own address, with its own key."
        raise Refusal("node", named[:60], message, remedy)


def record_node_status(node: Node, status: NodeStatus, now: datetime) -> None:
    """Store a heartbeat of `node` at `now`: what it offers and the state of its slots. Runs in a transaction.

    Only what differs is written, and the time.
    """
    offered = {
        "sandbox": status.sandbox.value,
        "backends": [backend.value for backend in status.backends],
        "revisions": status.revisions,
        "environment": status.environment,
        "builders": status.builders,
        "refusals": [text[:_REFUSAL_CHARACTERS] for text in status.refusals[-_REFUSALS:]],
    }
    changed = {name: value for name, value in offered.items() if getattr(node, name) != value}
    # One that was revoked at this moment has no slots any more.
    if Node.objects.filter(pk=node.pk, revoked_at=None).update(seen_at=now, **changed):
        _record_slots(node, status)


def _record_slots(node: Node, status: NodeStatus) -> None:
    known = {slot.index: slot for slot in node.slots.all()}
    offered = {slot.index: slot for slot in status.slots if _may_offer(node, slot.profile)}
    changed: list[Slot] = []
    for index, slot in offered.items():
        values = {"profile": slot.profile, "state": slot.state.value, "note": slot.note[:300]}
        row = known.get(index)
        if row is None or any(getattr(row, name) != value for name, value in values.items()):
            changed.append(Slot(node=node, index=index, **values))
    if changed:
        Slot.objects.bulk_create(
            changed,
            update_conflicts=True,
            unique_fields=("node", "index"),
            update_fields=("profile", "state", "note"),
        )
    if gone := [row.pk for index, row in known.items() if index not in offered]:
        Slot.objects.filter(pk__in=gone).delete()


def _may_offer(node: Node, profile: str) -> bool:
    """Whether a node may judge a profile. One that is unknown, or not the operator's choice, is logged and left out."""
    if profile in (node.profiles or (profiles.profiles() if node.owner_id is None else ())):
        return True
    logger.warning("node %s offers the profile %s, which it was not registered for; ignored", node, profile[:40])
    return False


def _new_key() -> str:
    return f"pkn_{secrets.token_urlsafe(32)}"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


SendWork = Callable[..., None]
"""Something that carries work to the slots or builders of a node as `send_work` does, or raises `NotSent`."""


class NotSent(Exception):
    """The broker did not take a message."""


def send_work(node: str, work: Assignment | BuildOrder, /, *, valid_for_s: int) -> None:
    """Have `node` judge an evaluation, or compile it ahead of a slot; void when it reads it later than `valid_for_s`.

    Raises:
        NotSent: the broker did not take it.
    """
    name = TaskName.JUDGE if isinstance(work, Assignment) else TaskName.BUILD
    _send(node, name, work.to_json(), expires_s=valid_for_s)


def send_cancellation(node: str, cancellation: Cancellation) -> None:
    """Ask `node` to stop. When it cannot be reached its report will be refused anyway, so this never fails."""
    try:
        _send(node, TaskName.CANCEL, cancellation.to_json(), expires_s=600)
    except NotSent:
        logger.warning("could not send node %s the message to stop evaluation %s", node, cancellation.evaluation_id)


def _send(node: str, name: TaskName, text: str, *, expires_s: int) -> None:
    address = address_of(work_queue(node))
    try:
        app.send_task(name.value, args=(text,), expires=expires_s, ignore_result=True, **address)
    # AttributeError: kombu asks a channel for its connection, which the broker's end has just taken from it.
    except (KombuError, OSError, AttributeError) as error:
        raise NotSent(f"the broker did not accept {name.value} for node {node}: {error}") from error
