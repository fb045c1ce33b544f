"""Whose turn it is: payers take turns at a profile, one evaluation each, however much each of them has queued.

Every evaluation gets the number of its turn when it is queued, and the queue is ordered by it (start-time fair
queueing). A payer with nothing queued starts at the turn that is being judged; others continue from their last one.
"""

from django.db.models import CharField

from portal.core.kept_statements import Given, KeptStatement
from portal.submissions.models import Evaluation, ProfileQueue
from portal.submissions.waiting import Waiting


def first_turn(waiting: Waiting, *, profile: str, priority: int) -> int:
    """The turn of the next evaluation of the payer who has `waiting` in the queue; further ones take those after it.

    Runs while the payer's row is locked, so that two requests do not take the same turn.
    """
    last = waiting.last_turn(profile=profile, priority=priority)
    judged: int = next((turn for (turn,) in _JUDGED.rows(profile=profile)), 0)
    return judged if last is None else max(judged, last + 1)


_JUDGED = KeptStatement(lambda: ProfileQueue.objects.filter(profile=Given("profile", CharField())).values_list("turn"))


def note_turn(evaluation: Evaluation) -> None:
    """A slot has taken `evaluation`: who comes next comes in at its turn. Turns never go back."""
    moved = ProfileQueue.objects.filter(profile=evaluation.profile, turn__lt=evaluation.turn)
    if not moved.update(turn=evaluation.turn):
        ProfileQueue.objects.get_or_create(profile=evaluation.profile, defaults={"turn": evaluation.turn})
