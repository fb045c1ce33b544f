"""An evaluation ends together with all that follows from its end, or not at all."""

import pytest
from django.db import transaction

from portal.core.hooks import Hook
from portal.ranking.models import Standing
from portal.submissions import actions
from portal.submissions.hooks import evaluation_ended
from portal.submissions.models import Evaluation, Report, State
from tests.portal.factories import delivery_of, evaluation_of, submit


@pytest.fixture
def running(alice, node, now):
    """An evaluation that `alpha` judges."""
    evaluation = evaluation_of(submit(alice))
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.RUNNING, lease="lease", node=node, slot_index=0, started_at=now
    )
    return evaluation


class Refuses(Exception):
    """What a receiver raises."""


@pytest.fixture
def receiver():
    """Connects a receiver of `evaluation_ended` and takes it away after the test."""
    signal = evaluation_ended._signal  # noqa: SLF001 - hooks of the site never take a receiver away
    before = list(signal.receivers)
    yield lambda function: signal.connect(lambda event, **_: function(event), weak=False)
    signal.receivers = before


@pytest.mark.django_db
def test_receivers_get_the_evaluation_as_it_ended(running, now, receiver):
    heard = []
    receiver(heard.append)
    assert actions.record_delivery(delivery_of(running), now)
    running.refresh_from_db()
    assert heard == [running]
    assert (heard[0].state, heard[0].verdict) == (State.FINISHED, "PASSED")


@pytest.mark.django_db
def test_a_cancelled_evaluation_is_announced_too(alice, running, receiver):
    states = []
    receiver(lambda ended: states.append(ended.state))
    actions.cancel_evaluation(running, by=alice)
    assert states == [State.CANCELLED]


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_fails_takes_the_end_back_and_is_heard(running, now, receiver):
    def refuse(ended: Evaluation) -> None:
        raise Refuses(str(ended.pk))

    receiver(refuse)
    with pytest.raises(Refuses):
        actions.record_delivery(delivery_of(running), now)
    running.refresh_from_db()
    assert running.state == State.RUNNING
    assert not Report.objects.exists()
    assert not Standing.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_nothing_is_announced_outside_a_transaction():
    hook: Hook[str] = Hook()
    heard: list[str] = []
    hook.receiver(heard.append)
    with pytest.raises(transaction.TransactionManagementError):
        hook.send("too early")
    with transaction.atomic():
        hook.send("in time")
    assert heard == ["in time"]
