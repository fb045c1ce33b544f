"""Which profiles nodes serve, and the end of work that none of them can judge."""

import logging
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from django.conf import settings
from django.db.models import Q, QuerySet

from evaluator.hardware.profiles import profiles
from portal.catalog.queries import paused_slugs
from portal.dispatcher.assign import within_abilities
from portal.nodes.queries import all_online_slots, online_slots
from portal.submissions import lifecycle
from portal.submissions.models import Evaluation, ProfileState, State
from portal.submissions.queue import paused_profiles

logger = logging.getLogger(__name__)

LOOK_EVERY = timedelta(seconds=60)
_GAP = timedelta(minutes=10)
"""After so long without a look nobody knows who was able meanwhile: the waiting begins anew."""
ENDED_PER_LOOK = 200


def look_at_nodes(now: datetime) -> bool:
    """Once a minute, note which profiles are served and what waits for no node; returns whether it was time."""
    known = ProfileState.objects.filter(profile__in=profiles())
    if known.filter(looked_at__gt=now - LOOK_EVERY).count() == len(profiles()):
        return False
    waiting = Evaluation.objects.filter(state=State.QUEUED)
    if ProfileState.objects.filter(looked_at__lt=now - _GAP).exists():
        waiting.exclude(unable_since=None).update(unable_since=None)
    ProfileState.objects.bulk_create(
        (ProfileState(profile=name, looked_at=now) for name in profiles()), ignore_conflicts=True
    )
    served = set(online_slots(now=now).order_by().values_list("profile", flat=True))
    ProfileState.objects.filter(profile__in=served).update(served_at=now)
    ProfileState.objects.update(looked_at=now)
    able = _within_somebodys_abilities(now)
    waiting.filter(able).exclude(unable_since=None).update(unable_since=None)
    waiting.filter(unable_since=None).exclude(able).update(unable_since=now)
    return True


def _within_somebodys_abilities(now: datetime) -> Q:
    """The condition on evaluations that a node online could judge; a guest judges its owner's alone."""
    offers = {(slot.node_id, slot.profile): slot.node for slot in all_online_slots(now=now)}
    conditions = (
        Q(profile=profile, node_owner=node.owner_id) & within_abilities(node, profile=profile)
        for (_, profile), node in offers.items()
    )
    return reduce(or_, conditions, Q(pk__in=[]))


def end_unserved(now: datetime) -> int:
    """End what no node online could judge for `UNSERVED_HOURS` on end; returns how many.

    What an operator has paused waits on, and hours in which no dispatcher looked count for nobody.
    """
    ended = [
        evaluation
        for evaluation in _unserved(now)
        if lifecycle.end_unserved(evaluation, now=now, message=_message(evaluation, now))
    ]
    for evaluation in ended:
        logger.info("evaluation %s ended unjudged: no node can judge it on %s", evaluation.pk, evaluation.profile)
    return len(ended)


def _unserved(now: datetime) -> QuerySet[Evaluation]:
    since = now - timedelta(hours=settings.UNSERVED_HOURS)
    waiting = Evaluation.objects.filter(state=State.QUEUED, unable_since__lt=since)
    # A guest's owner has no switch of a profile: the operator's is for the site's own nodes.
    open_ones = waiting.exclude(node_owner=None, profile__in=paused_profiles()).exclude(
        submission__problem__in=paused_slugs()
    )
    return open_ones.select_related("submission").order_by("queued_at")[:ENDED_PER_LOOK]


def _message(evaluation: Evaluation, now: datetime) -> str:
    hours = f"{settings.UNSERVED_HOURS:.0f} hours"
    served = ProfileState.objects.filter(profile=evaluation.profile, served_at__gte=now - _GAP).exists()
    if served and evaluation.node_owner_id is None:
        return (
            f"For {hours} no node of {evaluation.profile} could judge a {evaluation.mode} submission in the backend "
            f"{evaluation.submission.backend} to this revision of the problem. It was not judged and cost nothing. "
            "Submit it again later, or choose another backend or profile."
        )
    return (
        f"No node has served {evaluation.profile} for {hours}, so this was not judged. It cost nothing. "
        "Submit it again when a node of the profile is online, or choose another profile."
    )
