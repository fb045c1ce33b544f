"""The queues as the status page and the submit page show them."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from evaluator.contract import Backend, SlotState
from evaluator.hardware.profiles import Profile, profiles
from portal.accounts.models import User
from portal.core.kept_statements import KeptStatement
from portal.nodes.queries import online_slots, slots_of_online_nodes
from portal.submissions.allowances import payer_of_author
from portal.submissions.models import Evaluation, ProfileQueue, State
from portal.submissions.queries import IN_PROGRESS, WAITING, QueuePosition, paused_profiles, position_in_queue

OWN_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Queue:
    """One profile's queue: what waits, what of it is compiled, what is being judged, and by how many slots."""

    profile: Profile
    waiting: int
    built: int
    running: int
    slots: int
    is_paused: bool = False
    pause_reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Capability:
    """What a profile can judge on this site at this moment; `backends` is empty while no slot is online.

    `served_at` is when a node could last take work of it, by what the site knows. `trouble` is why a slot of an online
    node takes no work, in the node's words.
    """

    profile: Profile
    slots: int
    backends: tuple[Backend, ...]
    is_paused: bool = False
    pause_reason: str = ""
    served_at: datetime | None = None
    trouble: str = ""

    @property
    def is_online(self) -> bool:
        """Whether a slot of the profile is online."""
        return self.slots > 0


def queue_lengths() -> list[Queue]:
    """The queues of all profiles that have a slot or work, in the order of the profiles."""
    unfinished = Evaluation.objects.filter(node_owner=None, state__in=State.unfinished()).values_list("profile")
    waiting = Count("id", filter=Q(state__in=WAITING))
    built = Count("id", filter=Q(state=State.BUILT))
    running = Count("id", filter=Q(state__in=IN_PROGRESS))
    annotated = unfinished.annotate(w=waiting, r=running, b=built).order_by()
    counts = {name: (queued, busy, ahead) for name, queued, busy, ahead in annotated}
    online = online_slots().order_by().values_list("profile").annotate(slots=Count("id"))
    slots = dict(online)
    paused = paused_profiles()
    return [
        Queue(
            profile=profile,
            waiting=counts.get(name, (0, 0, 0))[0],
            running=counts.get(name, (0, 0, 0))[1],
            built=counts.get(name, (0, 0, 0))[2],
            slots=slots.get(name, 0),
            is_paused=name in paused,
            pause_reason=paused.get(name, ""),
        )
        for name, profile in profiles().items()
        if name in counts or name in slots or name in paused
    ]


def own_positions(user: User) -> list[tuple[Evaluation, QueuePosition | None]]:
    """The reader's own unfinished evaluations, the oldest first, with their positions in the queue."""
    own = Evaluation.objects.filter(submission__author=user, submission__is_attempt=False)
    # An index finds what waits for a payer; by the author alone, each evaluation in the queue would be looked at.
    unfinished = own.filter(state__in=State.unfinished(), payer=payer_of_author(user).key)
    chosen = unfinished.select_related("submission").order_by("queued_at")[:OWN_SHOWN]
    return [(evaluation, position_in_queue(evaluation)) for evaluation in chosen]


def capabilities() -> dict[str, Capability]:
    """What every profile can judge now, by name: those of its backends that an online node has."""
    slots: dict[str, int] = {}
    offered: dict[str, set[str]] = {}
    troubles: dict[str, str] = {}
    paused = paused_profiles()
    served = dict(_SERVED.rows())
    for slot in slots_of_online_nodes():
        if slot.state == SlotState.QUARANTINED:
            troubles[slot.profile] = slot.note
        if slot.state in (SlotState.QUARANTINED, SlotState.STOPPED):
            continue
        slots[slot.profile] = slots.get(slot.profile, 0) + 1
        offered.setdefault(slot.profile, set()).update(slot.node.backends)
    return {
        name: Capability(
            profile=profile,
            slots=slots.get(name, 0),
            backends=tuple(backend for backend in profile.backends if backend in offered.get(name, ())),
            is_paused=name in paused,
            pause_reason=paused.get(name, ""),
            served_at=served.get(name),
            trouble=troubles.get(name, ""),
        )
        for name, profile in profiles().items()
    }


_SERVED = KeptStatement(lambda: ProfileQueue.objects.values_list("profile", "served_at"))
