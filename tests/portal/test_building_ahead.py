"""Evaluations that are compiled before a slot is free: who, in which order, and that none is lost or counted twice."""

from datetime import timedelta

import pytest

from evaluator.contract import (
    MOST_BUILDERS,
    Backend,
    BuildOrder,
    Delivery,
    Mode,
    NodeStatus,
    Progress,
    SandboxLevel,
    SlotState,
    SlotStatus,
    Stage,
    Verdict,
)
from portal.dispatcher.assign import BUILT_PER_SLOT, build_once, dispatch_once
from portal.dispatcher.leases import record_heartbeat, release_built, renew_revisions, sweep
from portal.nodes import actions as nodes
from portal.nodes.actions import NotSent
from portal.nodes.models import Node, Slot
from portal.submissions import actions, lifecycle, queue
from portal.submissions.models import Evaluation, State
from problems import registry
from tests.portal.factories import bundle, delivery_of, evaluation_of, report_on, submit
from tests.portal.test_queue import Sent

pytestmark = pytest.mark.django_db
PROFILE = "h200x2-nomc"
SOURCE = "def solution(tensor):\n    return tensor\n"


class Ordered(list[tuple[str, BuildOrder]]):
    """Replaces the broker and keeps what builders were sent."""

    def __call__(self, node, order, *, valid_for_s):
        assert valid_for_s > 0
        self.append((node, order))

    @property
    def ids(self):
        return [order.request.evaluation_id for _, order in self]


def refuse(node, order, *, valid_for_s):
    raise NotSent("the broker is down")


@pytest.fixture
def node(db, now):
    """A GPU node with one free slot and two builders, just heard from."""
    nodes.register_node("alpha")
    hear(now)
    return Node.objects.get(name="alpha")


def hear(now, **changes):
    """A heartbeat of `alpha`, or of the node named."""
    fields = {
        "node": "alpha",
        "slots": (SlotStatus(index=0, profile=PROFILE, state=SlotState.FREE),),
        "sandbox": SandboxLevel.FULL,
        "backends": tuple(Backend),
        "revisions": {problem.slug: registry.revision(problem.slug) for problem in registry.problems()},
        "builders": 2,
    }
    status = NodeStatus(**(fields | changes))
    record_heartbeat(Node.objects.get(name=status.node), status, now)


def submit_cuda(author, **changes):
    number = Evaluation.objects.count()
    arguments = {"profile": PROFILE, "backend": "cuda", "files": bundle(f"{SOURCE}# {number}\n")}
    return evaluation_of(submit(author, **(arguments | changes)))


def fresh(evaluation):
    return Evaluation.objects.get(pk=evaluation.pk)


def built(evaluation, node, now):
    """The evaluation after a builder of `node` has compiled it."""
    if fresh(evaluation).state == State.QUEUED:
        build_once(now, send=Ordered())
    hear(now, built=(fresh(evaluation).lease,))
    assert fresh(evaluation).state == State.BUILT
    return fresh(evaluation)


def test_what_has_to_be_compiled_goes_to_a_builder_and_then_to_a_slot(alice, node, now):
    evaluation = submit_cuda(alice)
    assert dispatch_once(now, send=Sent()) == 0
    ordered = Ordered()
    assert build_once(now, send=ordered) == 1
    [(name, order)] = ordered
    building = fresh(evaluation)
    assert (name, order.lease, building.state, building.node) == ("alpha", building.lease, State.BUILDING, node)
    assert order.request.source == evaluation.submission.source.files

    hear(now, built=(order.lease,))
    waiting = fresh(evaluation)
    assert (waiting.state, waiting.lease, waiting.slot_index, waiting.deadline_at) == (State.BUILT, None, None, None)
    assert queue.position_in_queue(waiting).ahead == 0

    sent = Sent()
    assert dispatch_once(now, send=sent) == 1
    assert sent.ids == [str(evaluation.pk)]
    judged = fresh(evaluation)
    assert (judged.state, judged.slot_index, judged.attempt) == (State.LEASED, 0, 1)
    assert judged.lease != order.lease


def test_with_many_builders_and_nothing_to_compile_the_queue_is_asked_once(node, now, django_assert_max_num_queries):
    hear(now, builders=MOST_BUILDERS)
    with django_assert_max_num_queries(4):
        assert build_once(now, send=Ordered()) == 0


def test_what_needs_no_compiler_goes_to_its_slot_at_once(alice, node, now):
    submit_cuda(alice, backend="pytorch")
    assert build_once(now, send=Ordered()) == 0
    assert dispatch_once(now, send=Sent()) == 1


def test_a_node_without_builders_compiles_in_the_slot(alice, node, now):
    hear(now, builders=0)
    submit_cuda(alice)
    assert build_once(now, send=Ordered()) == 0
    assert dispatch_once(now, send=Sent()) == 1


def test_as_many_are_compiled_at_once_as_the_node_has_builders_while_the_slot_judges(alice, bob, node, now):
    Slot.objects.update(state=SlotState.BUSY)
    evaluations = [submit_cuda(alice), submit_cuda(alice), submit_cuda(bob)]
    assert build_once(now, send=Ordered()) == 2
    assert build_once(now, send=Ordered()) == 0
    assert {fresh(evaluation).slot_index for evaluation in evaluations} == {0, 1, None}


def test_builders_follow_priority_then_turns_then_time(alice, bob, node, now):
    hear(now, builders=1)
    first, second, third, urgent = (submit_cuda(author) for author in (alice, alice, bob, alice))
    Evaluation.objects.filter(pk=urgent.pk).update(priority=5)
    order = []
    for _ in range(4):
        ordered = Ordered()
        build_once(now, send=ordered)
        [lease] = [order.lease for _, order in ordered]
        hear(now, builders=1, built=(lease,))
        order += ordered.ids
    assert order == [str(evaluation.pk) for evaluation in (urgent, first, third, second)]


def test_compiled_work_goes_to_the_slot_in_the_order_of_the_queue(alice, node, now):
    early, late = submit_cuda(alice), submit_cuda(alice)
    build_once(now, send=Ordered())
    for evaluation in (late, early):
        built(evaluation, node, now)
    Evaluation.objects.filter(pk=late.pk).update(priority=1)
    sent = Sent()
    dispatch_once(now, send=sent)
    assert sent.ids == [str(late.pk)]


def test_what_waits_compiled_is_bounded_and_holds_nobody_back_who_goes_first(alice, bob, node, now):
    waiting = [submit_cuda(alice) for _ in range(BUILT_PER_SLOT + 1)]
    Evaluation.objects.filter(pk__in=[evaluation.pk for evaluation in waiting[:-1]]).update(
        state=State.BUILT, node=node
    )
    assert build_once(now, send=Ordered()) == 0
    person = submit_cuda(bob)
    Evaluation.objects.filter(pk=person.pk).update(priority=1)
    ordered = Ordered()
    assert build_once(now, send=ordered) == 1
    assert ordered.ids == [str(person.pk)]


def test_a_compile_error_ends_the_evaluation_without_a_slot_and_costs_no_gpu_time(alice, node, now, later):
    evaluation = submit_cuda(alice)
    build_once(now, send=Ordered())
    building = fresh(evaluation)
    telling = Progress(evaluation_id=str(building.pk), lease=building.lease, stage=Stage.BUILDING)
    assert lifecycle.note_progress(telling, now)
    assert fresh(evaluation).state == State.BUILDING
    report = report_on(building, verdict=Verdict.COMPILE_ERROR)
    assert actions.record_delivery(Delivery(lease=building.lease, node="alpha", report=report), later(30))
    ended = fresh(evaluation)
    assert (ended.state, ended.verdict) == (State.FINISHED, "COMPILE_ERROR")
    assert ended.finished_at - ended.started_at == timedelta(0)
    assert dispatch_once(now, send=Sent()) == 0


def test_a_builder_that_is_lost_gives_the_work_back_as_the_next_try_once(alice, node, now, later, settings):
    evaluation = submit_cuda(alice)
    build_once(now, send=Ordered())
    lease = fresh(evaluation).lease
    hear(now, running=(str(evaluation.pk),))
    end = later(settings.LEASE_SECONDS + 2)
    Node.objects.update(seen_at=later(settings.LEASE_SECONDS + 1))
    assert sweep(end) == 1
    back = fresh(evaluation)
    assert (back.state, back.attempt, back.lease, back.node) == (State.QUEUED, 2, None, None)
    # It had been compiled after all, and its message comes too late.
    hear(end, built=(lease,))
    assert fresh(evaluation).state == State.QUEUED
    assert sweep(end) == 0


def test_a_heartbeat_keeps_the_lease_of_what_is_compiled(alice, node, now, later, settings):
    evaluation = submit_cuda(alice)
    build_once(now, send=Ordered())
    hear(later(settings.LEASE_SECONDS - 1), running=(str(evaluation.pk),))
    assert sweep(later(settings.LEASE_SECONDS + 1)) == 0
    assert fresh(evaluation).state == State.BUILDING


@pytest.mark.parametrize("change", ["silent", "disabled", "quarantined", "gone"])
def test_what_is_compiled_on_a_node_that_takes_no_work_waits_for_any_node_and_loses_no_try(
    alice, node, later, settings, change
):
    now = later(0)
    evaluation = submit_cuda(alice)
    built(evaluation, node, now)
    assert release_built(now) == 0
    if change == "silent":
        now = later(settings.NODE_SILENT_SECONDS + 1)
    elif change == "disabled":
        Node.objects.update(is_enabled=False)
    elif change == "quarantined":
        Slot.objects.update(state=SlotState.QUARANTINED)
    else:
        Node.objects.all().delete()
    assert release_built(now) == 1
    back = fresh(evaluation)
    assert (back.state, back.attempt, back.node) == (State.QUEUED, 1, None)


def test_another_node_does_not_take_what_is_compiled_elsewhere(alice, node, now):
    evaluation = submit_cuda(alice)
    built(evaluation, node, now)
    Slot.objects.update(state=SlotState.BUSY)
    nodes.register_node("beta")
    hear(now, node="beta")
    sent = Sent()
    assert dispatch_once(now, send=sent) == 0
    assert build_once(now, send=Ordered()) == 0


def test_a_cancelled_build_is_dropped_whenever_the_cancel_comes(alice, node, now):
    building, waiting = submit_cuda(alice), submit_cuda(alice)
    build_once(now, send=Ordered())
    lease = fresh(building).lease
    built(waiting, node, now)
    for evaluation in (building, waiting):
        actions.cancel_evaluation(fresh(evaluation), by=alice)
    hear(now, built=(lease,))
    assert {fresh(building).state, fresh(waiting).state} == {State.CANCELLED}
    assert dispatch_once(now, send=Sent()) == 0


def test_when_an_order_cannot_be_sent_the_work_stays_queued(alice, node, now):
    evaluation = submit_cuda(alice)
    assert build_once(now, send=refuse) == 0
    back = fresh(evaluation)
    assert (back.state, back.lease, back.node, back.attempt) == (State.QUEUED, None, None, 1)
    assert build_once(now, send=Ordered()) == 1


def test_when_an_assignment_cannot_be_sent_compiled_work_stays_compiled(alice, node, now):
    evaluation = submit_cuda(alice)
    built(evaluation, node, now)
    assert dispatch_once(now, send=refuse) == 0
    assert (fresh(evaluation).state, fresh(evaluation).node) == (State.BUILT, node)


def test_compiled_work_follows_its_problem_to_a_new_revision_and_is_compiled_again(alice, node, now):
    evaluation = submit_cuda(alice)
    built(evaluation, node, now)
    Evaluation.objects.update(problem_revision="0123456789abcdef")
    assert renew_revisions() == 1
    assert (fresh(evaluation).state, fresh(evaluation).node) == (State.QUEUED, None)


def test_a_stopped_node_gives_a_build_back_without_a_try(alice, node, now):
    evaluation = submit_cuda(alice, mode=Mode.CHECK.value)
    build_once(now, send=Ordered())
    building = fresh(evaluation)
    report = report_on(building, verdict=Verdict.JUDGE_FAILURE)
    assert actions.record_delivery(Delivery(lease=building.lease, node="alpha", report=report, is_returned=True), now)
    assert (fresh(evaluation).state, fresh(evaluation).attempt) == (State.QUEUED, 1)
    assert not building.reports.exists()


def test_a_report_under_an_earlier_lease_changes_nothing(alice, node, now):
    evaluation = submit_cuda(alice)
    build_once(now, send=Ordered())
    old = delivery_of(fresh(evaluation))
    built(evaluation, node, now)
    assert not actions.record_delivery(old, now)
    assert fresh(evaluation).state == State.BUILT
