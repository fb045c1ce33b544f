"""Which profiles nodes serve, and the end of work that none of them will take."""

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from evaluator.hardware.profiles import profiles
from portal.catalog.queries import paused_slugs
from portal.nodes.models import Node
from portal.nodes.queries import online_slots
from portal.submissions.hooks import EvaluationEnded, evaluation_ended
from portal.submissions.models import Evaluation, ProfileQueue, State
from portal.submissions.queries import paused_profiles

logger = logging.getLogger(__name__)

LOOK_EVERY = timedelta(seconds=60)
_GAP = timedelta(minutes=10)
"""After so long without a look nobody knows who served meanwhile: the waiting begins anew."""
ENDED_PER_LOOK = 200


def note_served_profiles(now: datetime) -> bool:
    """Note which profiles a slot could take work of at this moment, once a minute; returns whether it did."""
    if ProfileQueue.objects.filter(looked_at__gt=now - LOOK_EVERY).count() == len(profiles()):
        return False
    ProfileQueue.objects.bulk_create(
        (ProfileQueue(profile=name, watched_since=now, looked_at=now) for name in profiles()), ignore_conflicts=True
    )
    ProfileQueue.objects.filter(looked_at__lt=now - _GAP).update(watched_since=now)
    served = set(online_slots(now=now).order_by().values_list("profile", flat=True))
    ProfileQueue.objects.filter(profile__in=served).update(served_at=now)
    ProfileQueue.objects.update(looked_at=now)
    return True


def end_unserved(now: datetime) -> int:
    """End what has waited for `UNSERVED_HOURS` on a profile that no node has served meanwhile; returns how many.

    What an operator has paused waits on, and hours in which no dispatcher looked count for nobody.
    """
    return sum(_end(pk, now) for pk in _unserved(now))


def _unserved(now: datetime) -> list[UUID]:
    since = now - timedelta(hours=settings.UNSERVED_HOURS)
    never_since = Q(served_at=None) | Q(served_at__lt=since)
    silent = ProfileQueue.objects.filter(never_since, watched_since__lt=since).exclude(profile__in=paused_profiles())
    names = list(silent.values_list("profile", flat=True))
    is_own = Q(node_owner=None, profile__in=names)
    heard = Node.objects.filter(owner=OuterRef("node_owner"), seen_at__gte=since)
    is_guests = Q(node_owner__isnull=False) & ~Exists(heard)
    waiting = Evaluation.objects.filter(is_own | is_guests, state=State.QUEUED, queued_at__lt=since)
    open_ones = waiting.exclude(submission__problem__in=paused_slugs())
    return list(open_ones.order_by("queued_at").values_list("pk", flat=True)[:ENDED_PER_LOOK])


def _end(pk: UUID, now: datetime) -> bool:
    with transaction.atomic():
        # A node may have come back and taken it at this moment: only what still waits is ended.
        moved = Evaluation.objects.filter(pk=pk, state=State.QUEUED).update(
            state=State.UNSERVED, finished_at=now, stage_detail="", stage_since=None
        )
        if moved:
            ended = Evaluation.objects.select_related("submission").get(pk=pk)
            ended.message = (
                f"No node has served {ended.profile} for {settings.UNSERVED_HOURS:.0f} hours, so this was not judged. "
                "It cost nothing. Submit it again when a node of the profile is online, or choose another profile."
            )
            ended.save(update_fields=["message"])
            evaluation_ended.tell(EvaluationEnded(evaluation=ended))
            logger.info("evaluation %s ended unjudged: no node serves %s", pk, ended.profile)
    return bool(moved)
