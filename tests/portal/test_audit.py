"""The audit: it holds for what the site itself has done, and names each way in which rows can be wrong."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from evaluator.contract import Verdict
from portal.dispatcher.assign import dispatch_once
from portal.nodes.models import Node, Slot
from portal.operations.audit import INVARIANTS, audit
from portal.ranking.models import Board, Standing
from portal.runs.models import Attempt, AttemptState, RunEvent
from portal.submissions import actions
from portal.submissions.models import Evaluation, GpuUse, Report, State
from tests.portal.factories import delivery_of, evaluation_of, submit
from tests.portal.runs.rows import add, end, line, make_run
from tools.bench import demo_data as demo

pytestmark = pytest.mark.django_db

RUNNING_LEASE = {"state": State.RUNNING, "lease": "held", "slot_index": 7}


def keep(*_, **__):
    """Replaces the broker."""


def judged(author, node, now, **report) -> Evaluation:
    """An evaluation from its submission to its report."""
    node.slots.update(state="free")
    evaluation = evaluation_of(submit(author))
    assert dispatch_once(now, send=keep) == 1
    assert actions.record_delivery(delivery_of(evaluation, **report), now)
    evaluation.refresh_from_db()
    return evaluation


@pytest.fixture
def good_day(alice, bob, node, now):
    """All that happens on a good day: work passed, wrong, retried, cancelled, waiting; a run on GPUs and its quota."""
    judged(alice, node, now, low=1.0)
    judged(alice, node, now, low=2.0)
    judged(bob, node, now, verdict=Verdict.WRONG_RESULT)
    again = judged(bob, node, now, verdict=Verdict.JUDGE_FAILURE)
    assert (again.state, again.attempt) == (State.QUEUED, 2)
    node.slots.update(state="free")
    assert dispatch_once(now, send=keep) == 1
    assert actions.record_delivery(delivery_of(again), now)
    actions.cancel_evaluation(evaluation_of(submit(alice)), by=alice)
    submit(bob)
    gpus = Node.objects.create(name="gpus", key_digest="0" * 64, seen_at=now)
    Slot.objects.create(node=gpus, index=0, profile="h200x8", state="free")
    run = make_run(alice, profile="h200x8")
    add(run, line(), line(sample=1), line(sample=2))
    first, second, _ = run.attempts.order_by("sample")
    end(first, gpus)
    end(second, gpus, verdict=Verdict.JUDGE_ERROR)


def broken() -> set[str]:
    return {name for name, rows in audit(timezone.now()).items() if rows}


@pytest.mark.usefixtures("good_day")
def test_what_the_site_did_itself_holds():
    assert broken() == set()
    call_command("audit")


@pytest.mark.usefixtures("good_day")
def test_a_complete_run_holds(node):
    end(Attempt.objects.get(state=AttemptState.PENDING), node)
    assert broken() == set()


def test_invented_submissions_hold_without_reports(now):
    demo.seed(submissions=300, authors=20, now=now)
    assert broken() == set()


def finished() -> Evaluation:
    return Evaluation.objects.filter(state=State.FINISHED, submission__is_attempt=False).order_by("queued_at")[0]


def waiting() -> Evaluation:
    return Evaluation.objects.get(state=State.QUEUED, submission__is_attempt=False)


def change(evaluation: Evaluation, **values) -> None:
    Evaluation.objects.filter(pk=evaluation.pk).update(**values)


def lose_the_evaluation() -> None:
    waiting().delete()


def forget_a_verdict() -> None:
    change(finished(), verdict="")


def decide_before_the_end() -> None:
    change(waiting(), verdict="PASSED")


def lease_what_waits() -> None:
    change(waiting(), lease="left behind")


def hold_without_a_lease() -> None:
    change(waiting(), state=State.RUNNING)


def let_a_lease_grow_old() -> None:
    past = timezone.now() - timedelta(hours=1)
    change(waiting(), **RUNNING_LEASE, lease_expires_at=past, deadline_at=past)


def try_for_ever() -> None:
    change(waiting(), attempt=4)


def say_other_than_the_report() -> None:
    change(Evaluation.objects.get(verdict="WRONG_RESULT"), verdict="PASSED")


def finish_without_a_report() -> None:
    evaluation = Evaluation.objects.get(verdict="WRONG_RESULT")
    Report.objects.filter(evaluation=evaluation).delete()


def overlook_a_report() -> None:
    report = Report.objects.get(evaluation=finished())
    Report.objects.create(evaluation=waiting(), attempt=1, node_name="alpha", content=report.content)


def decide_twice() -> None:
    first = Report.objects.get(evaluation__attempt=2, attempt=1)
    content = Report.objects.get(evaluation__verdict="WRONG_RESULT").content
    Report.objects.filter(pk=first.pk).update(content=content)


def raise_a_score() -> None:
    Standing.objects.filter(author__username="alice").update(score_low=9.0)


def drop_a_standing() -> None:
    Standing.objects.filter(author__username="alice").delete()


def count_an_entry_twice() -> None:
    Board.objects.update(entries=5)


def keep_an_attempt_waiting() -> None:
    Attempt.objects.filter(state=AttemptState.ENDED).update(state=AttemptState.PENDING)


def lose_an_event() -> None:
    RunEvent.objects.filter(attempt=Attempt.objects.filter(state=AttemptState.ENDED)[0]).delete()


def leave_a_run_open() -> None:
    Attempt.objects.filter(state=AttemptState.PENDING).delete()


def judge_for_nothing() -> None:
    GpuUse.objects.filter(used_gpu_s=None).delete()


def charge_too_much() -> None:
    GpuUse.objects.filter(used_gpu_s__gt=0).update(used_gpu_s=1000.0)


def charge_too_early() -> None:
    GpuUse.objects.filter(used_gpu_s=None).update(used_gpu_s=1.0)


def never_charge() -> None:
    GpuUse.objects.filter(used_gpu_s__gt=0).update(used_gpu_s=None)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (lose_the_evaluation, "accepted-is-queued"),
        (forget_a_verdict, "ended-has-outcome"),
        (decide_before_the_end, "unfinished-has-none"),
        (lease_what_waits, "waiting-is-free"),
        (hold_without_a_lease, "held-is-leased"),
        (let_a_lease_grow_old, "nothing-is-stuck"),
        (try_for_ever, "tries-are-counted"),
        (say_other_than_the_report, "verdict-is-reported"),
        (finish_without_a_report, "verdict-is-reported"),
        (overlook_a_report, "report-is-heeded"),
        (decide_twice, "one-outcome"),
        (raise_a_score, "standings-were-judged"),
        (drop_a_standing, "accepted-stands"),
        (drop_a_standing, "people-stand"),
        (count_an_entry_twice, "boards-are-counted"),
        (keep_an_attempt_waiting, "attempts-are-judged"),
        (lose_an_event, "attempts-are-recorded"),
        (leave_a_run_open, "runs-are-completed"),
        (judge_for_nothing, "gpu-time-is-charged"),
        (charge_too_much, "quotas-are-exact"),
        (charge_too_early, "quotas-are-exact"),
        (never_charge, "quotas-are-exact"),
    ],
)
@pytest.mark.usefixtures("good_day")
def test_damage_is_named(damage, name):
    damage()
    assert name in broken()


def test_every_invariant_is_provoked():
    [cases] = [mark.args[1] for mark in test_damage_is_named.pytestmark if mark.name == "parametrize"]
    assert {name for _, name in cases} == set(INVARIANTS)


@pytest.mark.usefixtures("good_day")
def test_the_command_fails_and_says_what_is_broken(capsys):
    forget_a_verdict()
    with pytest.raises(CommandError, match="ended-has-outcome"):
        call_command("audit")
    assert str(finished().pk) in capsys.readouterr().out
    with pytest.raises(CommandError):
        call_command("audit", "--json")
    assert json.loads(capsys.readouterr().out)["ended-has-outcome"] == [str(finished().pk)]


@pytest.mark.usefixtures("good_day")
def test_a_board_without_its_row_is_said_to_count_none(now):
    Board.objects.all().delete()
    broken = audit(now)["boards-are-counted"]
    assert [row.partition(": ")[2].partition(",")[0] for row in broken] == ["0 counted"]
