"""What counts of the messages that nodes send."""

import uuid

import msgspec
import pytest

from evaluator.contract import (
    Backend,
    Delivery,
    EarlierTry,
    NodeStatus,
    Progress,
    SandboxLevel,
    SlotState,
    SlotStatus,
    Stage,
    Verdict,
)
from evaluator.errors import EvaluatorError
from evaluator.node.slots import Slot as NodeSlot
from portal.core.errors import Refusal
from portal.dispatcher.assign import dispatch_once
from portal.dispatcher.leases import record_heartbeat, sweep
from portal.nodes.models import Node, Slot
from portal.ranking import actions as ranking
from portal.ranking.models import Standing
from portal.submissions import actions, lifecycle, queries
from portal.submissions.models import Evaluation, Report, State
from tests.portal.conftest import keep
from tests.portal.factories import delivery_of, evaluation_of, submit

pytestmark = pytest.mark.django_db


def progress_of(evaluation, **changes):
    fields = {"evaluation_id": str(evaluation.pk), "lease": evaluation.lease, "stage": Stage.BUILDING}
    return Progress(**(fields | changes))


def state_of(evaluation):
    evaluation.refresh_from_db()
    return evaluation.state


def test_progress_starts_the_clock_and_extends_the_lease(leased, later):
    assert lifecycle.note_progress(progress_of(leased, detail="nvcc", fraction=0.5), later(3))
    leased.refresh_from_db()
    assert (leased.state, leased.stage, leased.stage_detail, leased.stage_fraction) == (
        State.RUNNING,
        "building",
        "nvcc",
        0.5,
    )
    assert leased.started_at == later(3)
    before = leased.lease_expires_at
    lifecycle.note_progress(progress_of(leased, stage=Stage.TIMING), later(10))
    leased.refresh_from_db()
    assert leased.started_at == later(3)
    assert leased.lease_expires_at > before


@pytest.mark.parametrize(
    "changes", [{"lease": "guessed"}, {"evaluation_id": str(uuid.uuid4())}, {"evaluation_id": "x"}]
)
def test_progress_without_the_lease_changes_nothing(leased, now, changes):
    assert not lifecycle.note_progress(progress_of(leased, **changes), now)
    assert state_of(leased) == State.LEASED


def test_a_report_ends_the_evaluation_and_makes_a_standing(leased, later):
    lifecycle.note_progress(progress_of(leased), later(1))
    assert actions.record_delivery(delivery_of(leased, low=1.3), later(9))
    leased.refresh_from_db()
    assert (leased.state, leased.verdict, leased.lease) == (State.FINISHED, "PASSED", None)
    assert (leased.score_low, leased.score_high) == (1.3, 1.5)
    assert leased.finished_at == later(9)
    assert Standing.objects.get().evaluation == leased
    assert queries.latest_report(leased).verdict is Verdict.PASSED


def test_the_same_report_twice_counts_once(leased, now):
    delivery = delivery_of(leased)
    assert actions.record_delivery(delivery, now)
    assert not actions.record_delivery(delivery, now)
    assert (Report.objects.count(), Standing.objects.count()) == (1, 1)


def test_a_report_under_a_wrong_lease_changes_nothing(leased, now):
    assert not actions.record_delivery(delivery_of(leased, lease="guessed"), now)
    assert state_of(leased) == State.LEASED
    assert not Report.objects.exists()


def test_a_report_from_another_node_changes_nothing(leased, now):
    with pytest.raises(Refusal, match="node is 'beta'"):
        actions.record_delivery(delivery_of(leased, node="beta"), now)
    assert state_of(leased) == State.LEASED


def test_a_report_on_another_source_changes_nothing(leased, now, bob):
    other = delivery_of(evaluation_of(submit(bob)), lease=leased.lease)
    assert not actions.record_delivery(other, now)
    assert state_of(leased) == State.LEASED
    assert not Report.objects.exists()


def test_a_report_after_a_cancel_changes_nothing(leased, now, alice):
    delivery = delivery_of(leased)
    actions.cancel_evaluation(leased, by=alice)
    assert not actions.record_delivery(delivery, now)
    assert state_of(leased) == State.CANCELLED
    assert not Standing.objects.exists()


def test_an_alarm_in_a_report_is_noted_with_its_evaluation(leased, now):
    delivery = delivery_of(leased)
    report = msgspec.structs.replace(delivery.report, alarms=("the reference ran 1.3 times as long",))
    assert actions.record_delivery(msgspec.structs.replace(delivery, report=report), now)
    leased.refresh_from_db()
    assert leased.has_alarms


@pytest.mark.parametrize("verdict", [Verdict.JUDGE_FAILURE, Verdict.BASELINE_UNSTABLE])
def test_a_failure_of_ours_is_queued_again_with_its_report_kept(leased, now, verdict):
    assert actions.record_delivery(delivery_of(leased, verdict=verdict), now)
    leased.refresh_from_db()
    assert (leased.state, leased.attempt, leased.verdict) == (State.QUEUED, 2, "")
    assert Report.objects.get().attempt == 1


def test_the_next_try_learns_why_those_before_it_ended_and_its_report_repeats_that(leased, node, now, later, settings):
    sent = []

    def send_again(at):
        Node.objects.update(seen_at=at)
        Slot.objects.update(state=SlotState.FREE)
        assert dispatch_once(at, send=lambda _node, assignment, **_: sent.append(assignment)) == 1

    assert actions.record_delivery(delivery_of(leased, verdict=Verdict.BASELINE_UNSTABLE), now)
    send_again(now)
    Evaluation.objects.update(stage=Stage.TIMING.value)
    assert sweep(later(settings.EVALUATION_DEADLINE_SECONDS + 1)) == 1
    send_again(later(settings.EVALUATION_DEADLINE_SECONDS + 1))
    first = EarlierTry(attempt=1, verdict=Verdict.BASELINE_UNSTABLE, reason="the verdict is BASELINE_UNSTABLE")
    second = EarlierTry(attempt=2, reason="its node stopped responding")
    assert [(each.request.attempt, each.request.earlier) for each in sent] == [(2, (first,)), (3, (first, second))]

    def cannot_start(profile):
        raise EvaluatorError(f"no ranks for {profile} on this machine")

    slot = NodeSlot(0, "cpux2", make_judge=cannot_start, changed=lambda: None)
    report = slot.judge(sent[-1], progress=lambda *_: None, cancelled=lambda: False).report
    leased.refresh_from_db()
    assert actions.record_delivery(Delivery(lease=sent[-1].lease, node="alpha", report=report), now)
    assert queries.latest_report(leased).earlier == (first, second)


@pytest.mark.parametrize("attempt", [1, 3])
def test_work_given_back_by_a_stopped_node_costs_no_try(leased, now, settings, attempt):
    Evaluation.objects.update(attempt=attempt)
    delivery = msgspec.structs.replace(delivery_of(leased, verdict=Verdict.JUDGE_FAILURE), is_returned=True)
    assert actions.record_delivery(delivery, now)
    leased.refresh_from_db()
    assert (leased.state, leased.attempt, leased.lease, leased.node) == (State.QUEUED, attempt, None, None)
    assert "Given back by alpha" in leased.stage_detail
    assert not Report.objects.exists()


def test_a_verdict_cannot_be_given_back(leased, now):
    delivery = msgspec.structs.replace(delivery_of(leased, low=1.3), is_returned=True)
    assert actions.record_delivery(delivery, now)
    assert state_of(leased) == State.FINISHED


@pytest.mark.parametrize("state", [SlotState.QUARANTINED, SlotState.STOPPED])
def test_a_slot_that_is_not_well_gets_no_work(alice, node, now, state):
    submit(alice)
    Slot.objects.update(state=state)
    assert dispatch_once(now, send=keep) == 0


def test_after_the_last_try_a_failure_of_ours_is_the_end(leased, now, settings):
    Evaluation.objects.update(attempt=settings.MAX_TRIES)
    assert actions.record_delivery(delivery_of(leased, verdict=Verdict.JUDGE_FAILURE), now)
    assert state_of(leased) == State.FINISHED
    assert leased.verdict == "JUDGE_FAILURE"


def test_an_error_of_ours_under_a_submission_ends_it_with_our_log_kept_from_its_author(leased, now):
    delivery = delivery_of(leased, verdict=Verdict.JUDGE_ERROR)
    delivery = msgspec.structs.replace(delivery, error_log="Traceback: expected 17\n" + "x" * 100_000)
    assert actions.record_delivery(delivery, now)
    assert state_of(leased) == State.FINISHED
    leased.refresh_from_db()
    assert (leased.verdict, leased.attempt) == ("JUDGE_ERROR", 1)
    kept = Report.objects.get()
    assert kept.error_log.startswith("Traceback: expected 17")
    assert len(kept.error_log) == 64 * 1024
    assert "Traceback" not in kept.report.to_json()


def test_a_fault_of_the_author_is_not_tried_again(leased, now):
    assert actions.record_delivery(delivery_of(leased, verdict=Verdict.DEADLOCK), now)
    assert state_of(leased) == State.FINISHED
    assert not Standing.objects.exists()


def status_of(node, *, running=(), slots=((0, SlotState.BUSY),)):
    return NodeStatus(
        node=node,
        slots=tuple(SlotStatus(index=index, profile="cpux2", state=state) for index, state in slots),
        sandbox=SandboxLevel.REDUCED,
        backends=(Backend.PYTORCH,),
        revisions={"allreduce": "0123456789abcdef"},
        running=running,
    )


def hear(name, now, **changes):
    """A heartbeat of a node, which is registered where it was not."""
    node, _ = Node.objects.get_or_create(name=name)
    record_heartbeat(node, status_of(name, **changes), now)


def test_a_heartbeat_shows_what_the_node_is(db, now):
    hear("gamma", now, slots=((0, SlotState.FREE), (1, SlotState.BUSY)))
    node = Node.objects.get(name="gamma")
    assert (node.seen_at, node.sandbox, node.backends) == (now, "reduced", ["pytorch"])
    assert list(node.slots.values_list("index", "state")) == [(0, "free"), (1, "busy")]
    hear("gamma", now, slots=((0, SlotState.FREE),))
    assert Slot.objects.filter(node=node).count() == 1


def test_a_heartbeat_keeps_the_leases_of_its_own_work_alive(leased, later):
    before = leased.lease_expires_at
    hear("beta", later(5), running=(str(leased.pk), "x"))
    assert Evaluation.objects.get(pk=leased.pk).lease_expires_at == before
    hear("alpha", later(5), running=(str(leased.pk),))
    assert Evaluation.objects.get(pk=leased.pk).lease_expires_at > before


def test_after_a_silence_of_all_nodes_the_first_heard_takes_no_work_from_the_others(leased, later, settings):
    back = settings.LEASE_SECONDS + settings.NODE_SILENT_SECONDS
    hear("beta", later(back))
    assert sweep(later(back + 1)) == 0
    assert state_of(leased) == State.LEASED


def test_a_node_that_is_silent_alone_loses_its_work(leased, later, settings):
    for seconds in range(0, settings.LEASE_SECONDS + 10, 5):
        hear("beta", later(seconds))
    assert sweep(later(settings.LEASE_SECONDS + 10)) == 1
    assert state_of(leased) == State.QUEUED


def test_rebuilding_gives_the_same_standings(leased, now):
    actions.record_delivery(delivery_of(leased), now)
    kept = Standing.objects.values("author", "evaluation", "score", "score_low", "submitted_at").get()
    assert ranking.rebuild_standings() == 1
    assert Standing.objects.values("author", "evaluation", "score", "score_low", "submitted_at").get() == kept
