"""Who is dispatched, in which order, and what happens when sending fails."""

from datetime import timedelta

import pytest

from evaluator.contract import Assignment, SlotState
from portal.catalog.models import ProblemSwitch
from portal.dispatcher.assign import dispatch_once
from portal.dispatcher.leases import FREE_LOSSES, renew_revisions, sweep
from portal.nodes.actions import NotSent
from portal.nodes.models import Node, Slot
from portal.submissions import actions, queue
from portal.submissions.models import Evaluation, State
from tests.portal.factories import delivery_of, evaluation_of, submit
from tests.portal.test_reports import hear

pytestmark = pytest.mark.django_db


class Sent(list[tuple[str, Assignment]]):
    """Replaces the broker and keeps what was sent."""

    def __call__(self, node: str, assignment: Assignment, *, valid_for_s: int) -> None:
        assert valid_for_s > 0
        self.append((node, assignment))

    @property
    def ids(self) -> list[str]:
        return [assignment.request.evaluation_id for _, assignment in self]


def refuse(node: str, assignment: Assignment, *, valid_for_s: int) -> None:
    raise NotSent("the broker is down")


def add_slots(node: Node, number: int) -> None:
    for index in range(1, number + 1):
        Slot.objects.create(node=node, index=index, profile="cpux2", state=SlotState.FREE)


def test_it_works(alice, node, now):
    submission = submit(alice)
    evaluation = evaluation_of(submission)
    sent = Sent()
    assert dispatch_once(now, send=sent) == 1
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.node, evaluation.slot_index) == (State.LEASED, node, 0)
    [(name, assignment)] = sent
    assert (name, assignment.slot, assignment.lease) == ("alpha", 0, evaluation.lease)
    assert assignment.request.evaluation_id == str(evaluation.pk)
    assert assignment.request.source == submission.source.files
    assert assignment.request.revision == evaluation.problem_revision


def test_one_evaluation_per_slot(alice, node, now):
    submit(alice)
    submit(alice)
    assert dispatch_once(now, send=Sent()) == 1
    assert dispatch_once(now, send=Sent()) == 0


def test_leases_differ_and_are_long(alice, node, now):
    add_slots(node, 1)
    submit(alice)
    submit(alice)
    dispatch_once(now, send=Sent())
    first, second = Evaluation.objects.values_list("lease", flat=True)
    assert first != second
    assert len(first) >= 32


def test_higher_priority_goes_first(alice, node, now):
    submit(alice)
    urgent = submit(alice)
    Evaluation.objects.filter(submission=urgent).update(priority=5)
    sent = Sent()
    dispatch_once(now, send=sent)
    assert sent.ids == [str(evaluation_of(urgent).pk)]


def test_an_author_with_work_in_progress_comes_after_one_without(alice, bob, node, now):
    add_slots(node, 2)
    first, second, third = submit(alice), submit(alice), submit(bob)
    sent = Sent()
    dispatch_once(now, send=sent)
    assert sent.ids == [str(evaluation_of(submission).pk) for submission in (first, third, second)]


def test_place_in_queue_follows_the_same_order(alice, bob, node, now):
    submit(alice)
    waiting, other = submit(alice), submit(bob)
    dispatch_once(now, send=Sent())
    assert queue.position_in_queue(evaluation_of(other)).ahead == 0
    place = queue.position_in_queue(evaluation_of(waiting))
    assert (place.ahead, place.total, place.has_node, place.expected_wait_s) == (1, 2, True, None)


def test_every_place_is_the_one_in_the_queues_order(alice, bob, node, now):
    submit(alice)
    dispatch_once(now, send=Sent())
    waiting = [submit(author) for author in (alice, bob, alice, bob)]
    Evaluation.objects.filter(submission=waiting[2]).update(priority=5)
    # Queued at the same moment: the identifier decides.
    same = evaluation_of(waiting[1]).queued_at
    Evaluation.objects.filter(submission=waiting[3]).update(queued_at=same)
    in_order = list(queue.queue_order("cpux2"))
    assert [queue.position_in_queue(evaluation).ahead for evaluation in in_order] == [0, 1, 2, 3]


def test_the_expected_wait_comes_from_recent_durations(alice, node, now, later):
    judged = evaluation_of(submit(alice))
    Evaluation.objects.filter(pk=judged.pk).update(state=State.FINISHED, started_at=now, finished_at=later(20))
    submit(alice)
    second = evaluation_of(submit(alice))
    assert queue.position_in_queue(second).expected_wait_s == pytest.approx(20)


@pytest.mark.parametrize(
    "changes",
    [
        {"is_enabled": False},
        {"seen_at": None},
        {"backends": ["cuda"]},
        {"revisions": {"allreduce": "0123456789abcdef"}},
        {"revisions": {}},
    ],
)
def test_a_node_that_cannot_judge_it_gets_no_work(alice, node, now, changes):
    Node.objects.filter(pk=node.pk).update(**changes)
    submit(alice)
    assert dispatch_once(now, send=Sent()) == 0


def test_a_node_not_heard_of_lately_gets_no_work(alice, node, now, settings):
    Node.objects.update(seen_at=now - timedelta(seconds=settings.NODE_SILENT_SECONDS + 1))
    submit(alice)
    assert dispatch_once(now, send=Sent()) == 0


@pytest.mark.parametrize("state", [SlotState.STARTING, SlotState.BUSY, SlotState.QUARANTINED])
def test_a_slot_that_is_not_free_gets_no_work(alice, node, now, state):
    Slot.objects.update(state=state)
    submit(alice)
    assert dispatch_once(now, send=Sent()) == 0


def test_another_profile_gets_no_work(alice, node, now):
    Slot.objects.update(profile="cpux4")
    submit(alice)
    assert dispatch_once(now, send=Sent()) == 0


def test_ranked_work_waits_for_the_sandbox_that_its_profile_demands(alice, node, now, settings):
    settings.ACCEPT_WEAK_SANDBOX = False
    Node.objects.update(sandbox="none")
    submit(alice)
    assert dispatch_once(now, send=Sent()) == 0
    Node.objects.update(sandbox="reduced")
    assert dispatch_once(now, send=Sent()) == 1


def test_a_paused_problem_waits_and_says_so(alice, node, now):
    ProblemSwitch.objects.create(slug="allreduce", is_paused=True)
    evaluation = evaluation_of(submit(alice))
    assert dispatch_once(now, send=Sent()) == 0
    assert queue.position_in_queue(evaluation).is_paused
    ProblemSwitch.objects.update(is_paused=False)
    assert dispatch_once(now, send=Sent()) == 1


def test_when_sending_fails_the_lease_is_given_back(alice, node, now):
    evaluation = evaluation_of(submit(alice))
    assert dispatch_once(now, send=refuse) == 0
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.lease, evaluation.node, evaluation.attempt) == (State.QUEUED, None, None, 1)
    assert dispatch_once(now, send=Sent()) == 1


def test_after_a_quick_cancel_the_slot_waits_for_the_nodes_word(alice, node, now):
    evaluation = evaluation_of(submit(alice))
    submit(alice)
    dispatch_once(now, send=Sent())
    evaluation.refresh_from_db()
    Evaluation.objects.filter(pk=evaluation.pk).update(state=State.CANCELLED, lease=None)
    assert dispatch_once(now, send=Sent()) == 0
    Slot.objects.update(state=SlotState.FREE)
    assert dispatch_once(now, send=Sent()) == 1


def lose(evaluation, later, *, is_taken: bool) -> int:
    """Send `evaluation` to a node that dies, before or after it took it; the try that it then waits for."""
    dispatch_once(later(0), send=Sent())
    if is_taken:
        hear("alpha", later(1), running=(str(evaluation.pk),))
    Node.objects.update(seen_at=later(998))
    assert sweep(later(999)) == 1
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.lease) == (State.QUEUED, None)
    return evaluation.attempt


def test_an_assignment_that_no_node_took_costs_no_try(alice, node, later):
    evaluation = evaluation_of(submit(alice))
    assert lose(evaluation, later, is_taken=False) == 1


def test_one_that_a_node_says_it_has_costs_a_try(alice, node, later):
    evaluation = evaluation_of(submit(alice))
    assert lose(evaluation, later, is_taken=True) == 2


def test_what_is_lost_again_and_again_costs_a_try(alice, node, later):
    evaluation = evaluation_of(submit(alice))
    Evaluation.objects.update(losses=FREE_LOSSES)
    assert lose(evaluation, later, is_taken=False) == 2


def test_a_late_report_after_the_sweep_changes_nothing(alice, node, now, later, settings):
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=Sent())
    delivery = delivery_of(evaluation)
    Node.objects.update(seen_at=later(settings.LEASE_SECONDS + 1))
    sweep(later(settings.LEASE_SECONDS + 2))
    assert not actions.record_delivery(delivery, later(settings.LEASE_SECONDS + 3))
    evaluation.refresh_from_db()
    assert evaluation.state == State.QUEUED
    assert not evaluation.reports.exists()


def test_no_lease_ends_while_the_site_hears_nobody(alice, node, now, later, settings):
    submit(alice)
    dispatch_once(now, send=Sent())
    assert sweep(later(settings.LEASE_SECONDS + 2)) == 0


def test_past_its_deadline_work_is_taken_back_even_from_a_lively_node(alice, node, now, later, settings):
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=Sent())
    end = later(settings.EVALUATION_DEADLINE_SECONDS + 1)
    Evaluation.objects.update(lease_expires_at=end + timedelta(seconds=30))
    assert sweep(end) == 1
    evaluation.refresh_from_db()
    assert evaluation.state == State.QUEUED


def test_after_the_last_try_it_ends_as_a_failure_of_ours(alice, node, now, later, settings):
    evaluation = evaluation_of(submit(alice))
    Evaluation.objects.update(attempt=settings.MAX_TRIES)
    dispatch_once(now, send=Sent())
    hear("alpha", now, running=(str(evaluation.pk),))
    assert sweep(later(settings.EVALUATION_DEADLINE_SECONDS + 1)) == 1
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.verdict) == (State.FINISHED, "JUDGE_FAILURE")
    assert "not of the submission" in evaluation.message


def test_waiting_work_follows_its_problem_to_a_new_revision(alice, node, now):
    waiting, sent = evaluation_of(submit(alice)), evaluation_of(submit(alice))
    current = waiting.problem_revision
    Evaluation.objects.update(problem_revision="0123456789abcdef")
    Evaluation.objects.filter(pk=sent.pk).update(state=State.LEASED)
    assert renew_revisions() == 1
    assert renew_revisions() == 0
    waiting.refresh_from_db()
    sent.refresh_from_db()
    assert (waiting.problem_revision, sent.problem_revision) == (current, "0123456789abcdef")
