"""What operators do in the admin: rejudge with a preview, decide on runs, ban, pause a queue."""

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from evaluator.contract import Verdict
from portal.catalog.models import ProblemSwitch
from portal.dispatcher.assign import dispatch_once
from portal.dispatcher.leases import look_at_nodes
from portal.runs import actions
from portal.submissions.models import Evaluation, ProfileState, State
from portal.submissions.queue import queue_order
from portal.submissions.quotas import quota_of
from tests.portal.factories import submit
from tests.portal.runs.rows import add, end, line, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_operator(client, operator):
    operator.is_superuser = True
    operator.save()
    client.force_login(operator)
    return client


@pytest.fixture
def judged(alice, node):
    """A run on GPUs with one wrong attempt that took 10 s of 8 GPUs, and one that passed."""
    run = make_run(alice, profile="h200x8-nomc")
    wrong, right = (result.attempt for result in add(run, line(), line(sample=1)).results)
    end(wrong, node, verdict=Verdict.WRONG_RESULT, seconds=10)
    end(right, node, seconds=10)
    return run, wrong


def choose(client, address, action, rows, **more):
    wanted = {"action": action, "_selected_action": [str(row.pk) for row in rows], "select_across": "0"} | more
    return client.post(address, wanted)


def test_a_rejudge_by_filter_shows_count_and_gpu_time_before_it_queues_anything(as_operator, judged, node):
    _, wrong = judged
    address = "/admin/submissions/evaluation/?verdict__exact=WRONG_RESULT"
    every = Evaluation.objects.all()
    first = choose(as_operator, address, "judge_again", every, index="0", select_across="1")
    page = first.content.decode()
    assert "1 submissions would be judged" in page
    assert "<td>80</td>" in page
    assert not Evaluation.objects.filter(state=State.QUEUED).exists()
    choose(as_operator, address, "judge_again", every, select_across="1", confirmed="yes", reason="a look")
    [again] = Evaluation.objects.filter(state=State.QUEUED)
    assert again.submission_id == wrong.submission_id


def test_an_error_of_ours_is_judged_again_and_refunded_in_one_action(as_operator, alice, node):
    run = make_run(alice, profile="h200x8-nomc")
    [result] = add(run, line()).results
    end(result.attempt, node, verdict=Verdict.JUDGE_ERROR, seconds=10)
    assert quota_of(run.model.organisation, now=timezone.now()).used_gpu_s == 80
    address = "/admin/submissions/evaluation/?verdict__exact=JUDGE_ERROR"
    every = Evaluation.objects.all()
    assert b"1 submissions would be judged" in choose(as_operator, address, "judge_again_and_refund", every).content
    choose(as_operator, address, "judge_again_and_refund", every, confirmed="yes", reason="a look")
    assert Evaluation.objects.filter(state=State.QUEUED).count() == 1
    assert quota_of(run.model.organisation, now=timezone.now()).used_gpu_s == 0


def test_a_decision_on_a_run_wants_a_reason_and_keeps_it(as_operator, judged):
    run, _ = judged
    actions.publish_run(run, by=run.created_by, sources="public")
    address = "/admin/runs/run/"
    assert b"Reason" in choose(as_operator, address, "decide", [run], index="0").content
    choose(as_operator, address, "decide", [run], confirmed="yes", kind="quarantined", reason="")
    run.refresh_from_db()
    assert not run.is_quarantined
    choose(as_operator, address, "decide", [run], confirmed="yes", kind="quarantined", reason="shared sources")
    run.refresh_from_db()
    assert run.is_quarantined
    page = as_operator.get(f"/runs/{run.pk}/").content.decode()
    assert "shared sources" in page
    assert as_operator.get(f"/admin/runs/run/{run.pk}/change/").status_code == 200


def test_a_ban_closes_the_account_and_keeps_the_reason(as_operator, alice):
    choose(as_operator, "/admin/accounts/user/", "close_accounts", [alice], confirmed="yes", reason="forged reports")
    alice.refresh_from_db()
    assert not alice.is_active
    assert "forged reports" in LogEntry.objects.get().change_message


def test_a_paused_queue_gives_out_no_work(as_operator, alice, node):
    submit(alice)
    assert queue_order("cpux2").exists()
    look_at_nodes(timezone.now())
    ProfileState.objects.update(turn=7)
    as_operator.post("/admin/submissions/profilestate/cpux2/change/", {"is_paused": "on", "note": "repair"})
    paused = ProfileState.objects.get(is_paused=True)
    assert (paused.profile, paused.note, paused.turn) == ("cpux2", "repair", 7)
    assert not queue_order("cpux2").exists()
    assert dispatch_once(timezone.now(), send=lambda *_, **__: None) == 0


def test_a_problem_is_switched_by_choosing_it(as_operator):
    address = "/admin/catalog/problemswitch/add/"
    refused = as_operator.post(address, {"slug": "no_such_problem", "is_open": "on"})
    assert "Select a valid choice" in refused.content.decode()
    assert not ProblemSwitch.objects.exists()
    as_operator.post(address, {"slug": "allreduce", "is_paused": "on", "note": "repair"})
    assert ProblemSwitch.objects.get().pk == "allreduce"


def test_the_list_of_evaluations_says_whose_they_are_and_of_what(as_operator, judged):
    page = as_operator.get("/admin/submissions/evaluation/").content.decode()
    row = page.split('<table id="result_list">')[1].split("<tbody>")[1].split("</tr>")[0]
    assert judged[0].created_by.username in row
    assert "allreduce" in row


def test_the_list_of_evaluations_can_be_cut_to_those_with_an_alarm(as_operator, judged):
    loud = Evaluation.objects.order_by("queued_at").first()
    Evaluation.objects.filter(pk=loud.pk).update(has_alarms=True)
    page = as_operator.get("/admin/submissions/evaluation/?has_alarms__exact=1").content.decode()
    assert page.count(f">{str(loud.pk)[:8]}<") == 1
    assert page.count(">allreduce<") == 1


def test_the_admin_speaks_english(as_operator):
    page = as_operator.get("/admin/").content.decode()
    assert "Problem switches" in page
    assert "GPU use" in page
    assert not any(wrong in page for wrong in ("switchs", "Gpu"))
