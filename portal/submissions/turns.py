"""Whose turn it is: payers take turns at a profile, one evaluation each, however much each of them has queued.

Every evaluation gets the number of its turn when it is queued, and the queue is ordered by it (start-time fair
queueing). A payer with nothing queued starts at the turn that is being judged; others continue from their last one.
"""

from django.db.models import Max

from portal.submissions.models import Evaluation, ProfileQueue, State


def first_turn(*, payer: str, profile: str, priority: int) -> int:
    """The turn of the next evaluation that `payer` queues; further ones take the turns after it.

    Runs while the payer's row is locked, so that two requests do not take the same turn.
    """
    waiting = Evaluation.objects.filter(state__in=State.unfinished())
    own = waiting.filter(payer=payer, profile=profile, priority=priority)
    last = own.aggregate(last=Max("turn"))["last"]
    judged: int = ProfileQueue.objects.filter(profile=profile).values_list("turn", flat=True).first() or 0
    return judged if last is None else max(judged, last + 1)


def note_turn(evaluation: Evaluation) -> None:
    """A slot has taken `evaluation`: who comes next comes in at its turn. Turns never go back."""
    moved = ProfileQueue.objects.filter(profile=evaluation.profile, turn__lt=evaluation.turn)
    if not moved.update(turn=evaluation.turn):
        ProfileQueue.objects.get_or_create(profile=evaluation.profile, defaults={"turn": evaluation.turn})
