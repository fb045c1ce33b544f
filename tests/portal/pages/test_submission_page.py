"""A submission's page: live parts, verdicts in words, and what its author may do."""

import json

import pytest
from django.urls import reverse
from django.utils import timezone
from msgspec.structs import replace

from evaluator.contract import Delivery, Finding, Verdict
from portal.submissions import actions
from portal.submissions.models import Evaluation, ProfileState, State
from tests.portal.pages import scenes


def page_of(client, submission) -> str:
    return client.get(reverse("submissions:detail", args=[submission.pk])).content.decode()


def live_address(submission) -> str:
    return reverse("submissions:live", args=[submission.pk])


def test_a_queued_submission_shows_its_place_and_polls_slowly(as_alice, alice, bob, local):
    scenes.submit(bob)
    page = page_of(as_alice, scenes.submit(alice))
    assert "1 ahead of it, 2 in the queue" in page
    assert 'data-poll-s="5"' in page


def test_a_running_submission_shows_its_stage_and_polls_each_two_seconds(as_alice, alice, local):
    submission = scenes.submit(alice)
    scenes.lease(submission, local, stage="timing")
    page = page_of(as_alice, submission)
    assert 'data-poll-s="2"' in page
    assert '<li class="is-now" aria-current="step">Timing' in page
    assert 'data-status="Being judged: Timing."' in page


def test_an_unchanged_poll_is_a_304_and_a_changed_one_is_not(as_alice, alice, local):
    submission = scenes.submit(alice)
    scenes.lease(submission, local)
    first = as_alice.get(live_address(submission))
    again = as_alice.get(live_address(submission), headers={"If-None-Match": first["ETag"]})
    Evaluation.objects.update(stage="timing")
    changed = as_alice.get(live_address(submission), headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert changed.status_code == 200


def test_a_later_try_says_how_those_before_it_ended(as_alice, alice, local):
    submission = scenes.submit(alice)
    evaluation = scenes.lease(submission, local)
    unstable = scenes.report(evaluation, verdict=Verdict.BASELINE_UNSTABLE)
    assert actions.record_delivery(Delivery(lease=evaluation.lease, node=local.name, report=unstable), timezone.now())
    why = "Second try: the first ended as BASELINE_UNSTABLE"
    waiting = page_of(as_alice, submission)
    assert "Try 1 failed on our side" in waiting
    assert why not in waiting
    scenes.lease(submission, local)
    assert f"{why}: {unstable.message}" in page_of(as_alice, submission)
    Evaluation.objects.update(attempt=3)
    assert "; the second was lost: its node stopped responding" in page_of(as_alice, submission)


def test_a_finished_submission_stops_polling(as_alice, alice, local):
    assert "data-stream" not in page_of(as_alice, scenes.judged(alice, local))


def test_a_pass_shows_score_interval_times_and_the_plot_of_its_blocks(as_alice, alice, local):
    page = page_of(as_alice, scenes.judged(alice, local))
    blocks = page.split('id="blocks-figure"')[1].split("</svg>")[0]
    assert "1.21 to 1.28" in page
    assert "80.0 µs" in page
    assert [f"block {number}: " in blocks for number in (1, 12, 13)] == [True, True, False]


def test_a_failure_names_the_rank_and_links_the_line(as_alice, alice, local):
    page = page_of(as_alice, scenes.judged(alice, local, verdict=Verdict.RUNTIME_ERROR))
    assert 'href="#solution.py-L7"' in page
    assert 'id="solution.py-L7"' in page
    assert "ValueError: &lt;b&gt;bad&lt;/b&gt; shape" in page
    assert "hello from a rank" in page


def test_a_wrong_result_shows_where_it_begins(as_alice, alice, local):
    page = page_of(as_alice, scenes.judged(alice, local, verdict=Verdict.WRONG_RESULT))
    assert "512 of 6144" in page
    assert "[0, 17]" in page


def test_an_output_of_another_shape_was_not_compared(as_alice, alice, local):
    submission = scenes.submit(alice)
    evaluation = scenes.lease(submission, local)
    report = scenes.report(evaluation, verdict=Verdict.WRONG_SHAPE)
    (size,) = report.sizes
    bare = tuple(replace(check, elements=0, max_error=0.0, rms_error=0.0) for check in size.outputs)
    report = replace(report, sizes=(replace(size, outputs=bare),))
    assert actions.record_delivery(Delivery(lease=evaluation.lease, node=local.name, report=report), timezone.now())
    checks = page_of(as_alice, submission).split('id="checks"')[1].split("</section>")[0]
    assert checks.count("not compared") == 2
    assert "of the tolerance</summary>" not in checks
    assert "badge--good" not in checks


def test_an_output_that_only_the_sum_of_its_errors_refuses_is_not_correct(as_alice, alice, local):
    submission = scenes.submit(alice)
    evaluation = scenes.lease(submission, local)
    report = scenes.report(evaluation, verdict=Verdict.WRONG_RESULT)
    (size,) = report.sizes
    near = tuple(replace(check, wrong_elements=0, max_error=0.9, first_wrong=None) for check in size.outputs)
    found = Finding(
        verdict=Verdict.WRONG_RESULT, message="an rms error of 0.02", rank=1, size=size.size, output=near[1].output
    )
    report = replace(report, sizes=(replace(size, outputs=near),), findings=(found,))
    assert actions.record_delivery(Delivery(lease=evaluation.lease, node=local.name, report=report), timezone.now())
    first, second = page_of(as_alice, submission).split('id="checks"')[1].split("<tbody>")[1].split("</tr>")[:2]
    assert "badge--good" in first
    assert "badge--bad" in second


def test_a_compile_error_shows_what_the_compiler_said(as_alice, alice, local):
    page = page_of(as_alice, scenes.judged(alice, local, verdict=Verdict.COMPILE_ERROR))
    assert "x.cu(3): error" in page


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_a_page(as_alice, alice, local, settings, verdict):
    settings.MAX_TRIES = 1
    assert "<strong>Next:</strong>" in page_of(as_alice, scenes.judged(alice, local, verdict=verdict))


def test_a_private_submission_is_a_404_for_others(client, bob, alice):
    submission = scenes.submit(alice)
    client.force_login(bob)
    for name in ("detail", "live"):
        assert client.get(reverse(f"submissions:{name}", args=[submission.pk])).status_code == 404


def test_the_author_cancels(as_alice, alice):
    evaluation = scenes.submit(alice).evaluations.get()
    response = as_alice.post(reverse("submissions:cancel", args=[evaluation.pk]), follow=True)
    evaluation.refresh_from_db()
    assert evaluation.state == State.CANCELLED
    assert "The evaluation was cancelled." in response.content.decode()


def test_cancelling_a_finished_one_is_a_409(as_alice, alice, local):
    evaluation = scenes.judged(alice, local).evaluations.get()
    assert as_alice.post(reverse("submissions:cancel", args=[evaluation.pk])).status_code == 409


def test_nobody_cancels_publishes_or_rejudges_for_another(client, alice, bob, local):
    submission = scenes.judged(alice, local, visibility="public")
    evaluation = submission.evaluations.get()
    client.force_login(bob)
    answers = [
        client.post(reverse("submissions:cancel", args=[evaluation.pk])),
        client.post(reverse("submissions:visibility", args=[submission.pk]), {"visibility": "private"}),
        client.post(reverse("submissions:evaluate", args=[submission.pk]), {"profile": "cpux2", "mode": "check"}),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]


@pytest.mark.parametrize("name", ["visibility", "evaluate"])
def test_changes_need_a_post_and_a_person(client, alice, name):
    submission = scenes.submit(alice, visibility="public")
    address = reverse(f"submissions:{name}", args=[submission.pk])
    assert client.post(address).status_code == 302
    client.force_login(alice)
    assert client.get(address).status_code == 405


def test_the_author_publishes(as_alice, alice, client):
    submission = scenes.submit(alice)
    as_alice.post(reverse("submissions:visibility", args=[submission.pk]), {"visibility": "public"})
    as_alice.logout()
    assert "The sum over all ranks." in page_of(client, submission)


def test_an_unknown_visibility_is_refused(as_alice, alice):
    submission = scenes.submit(alice)
    response = as_alice.post(reverse("submissions:visibility", args=[submission.pk]), {"visibility": "loud"})
    submission.refresh_from_db()
    assert response.status_code == 422
    assert submission.visibility == "private"


def test_judging_again_adds_an_evaluation(as_alice, alice, local):
    submission = scenes.judged(alice, local)
    address = reverse("submissions:evaluate", args=[submission.pk])
    response = as_alice.post(address, {"profile": "cpux2", "mode": "check"}, follow=True)
    assert submission.evaluations.count() == 2
    assert "Queued" in response.content.decode()


def test_the_report_downloads_as_json(as_alice, alice, local):
    evaluation = scenes.judged(alice, local).evaluations.get()
    response = as_alice.get(reverse("submissions:report", args=[evaluation.pk]))
    assert response["Content-Disposition"].startswith("attachment")
    assert json.loads(response.content)["verdict"] == "PASSED"


def test_there_is_no_report_before_the_end(as_alice, alice):
    evaluation = scenes.submit(alice).evaluations.get()
    assert as_alice.get(reverse("submissions:report", args=[evaluation.pk])).status_code == 404


def test_an_evaluation_of_another_submission_is_a_404(as_alice, alice, local):
    one, other = scenes.judged(alice, local), scenes.submit(alice)
    address = reverse("submissions:detail", args=[one.pk])
    assert as_alice.get(address, {"evaluation": str(other.evaluations.get().pk)}).status_code == 404


def test_own_submissions_are_listed_and_others_are_not(as_alice, alice, bob, local):
    scenes.judged(alice, local)
    theirs = scenes.judged(bob, local)
    page = as_alice.get("/submissions/").content.decode()
    assert "Passed" in page
    assert str(theirs.pk) not in page


def test_the_list_says_what_waits_for_hardware_and_what_for_its_turn(as_alice, alice, local):
    scenes.submit(alice, profile="h200x8")
    assert "Waiting for hardware" in as_alice.get("/submissions/").content.decode()
    scenes.node(profile="h200x8", name="another")
    listed = as_alice.get("/submissions/").content.decode()
    assert "Waiting for hardware" not in listed
    assert "Queued" in listed


def test_the_list_of_own_submissions_costs_a_fixed_number_of_queries(as_alice, alice, local, django_assert_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    scenes.judged(alice, local)
    with CaptureQueriesContext(connection) as few:
        as_alice.get("/submissions/")
    scenes.judged(alice, local)
    scenes.judged(alice, local)
    with django_assert_num_queries(len(few)):
        as_alice.get("/submissions/")


def test_a_poll_brings_the_list_of_evaluations_along(as_alice, alice, local):
    submission = scenes.judged(alice, local)
    page = as_alice.get(live_address(submission)).content.decode()
    assert 'id="evaluation-list" hx-swap-oob="true"' in page


def test_a_failure_shows_the_stage_in_which_it_ended(as_alice, alice, local):
    assert "ended here" in page_of(as_alice, scenes.judged(alice, local, verdict=Verdict.WRONG_RESULT))
    assert "ended here" not in page_of(as_alice, scenes.judged(alice, local))


def test_the_comparison_follows_the_verdict_without_a_reload(as_alice, alice, local):
    scenes.judged(alice, local)
    submission = scenes.submit(alice)
    page = page_of(as_alice, submission)
    assert "Queued" in page.split('<span id="compared-now">')[1].split("now</span>")[0]
    evaluation = scenes.lease(submission, local)
    delivery = Delivery(lease=evaluation.lease, node=local.name, report=scenes.report(evaluation))
    assert actions.record_delivery(delivery, timezone.now())
    polled = as_alice.get(live_address(submission)).content.decode()
    now = polled.split('<span id="compared-now" hx-swap-oob="true">')[1].split("now</span>")[0]
    assert "Passed" in now
    assert "Queued" not in now


def test_a_first_submission_has_no_comparison_to_follow(as_alice, alice, local):
    submission = scenes.submit(alice)
    assert "compared-now" not in as_alice.get(live_address(submission)).content.decode()


def test_advice_on_a_pass_fits_what_was_judged(as_alice, alice, local):
    in_check_mode = page_of(as_alice, scenes.judged(alice, local, mode="check"))
    without_floor = page_of(as_alice, scenes.judged(alice, local))
    assert "Submit it in ranked mode" in in_check_mode
    assert "Compare your times with the reference" in without_floor
    for page in (in_check_mode, without_floor):
        assert "Compare your time with the floor" not in page


def test_a_private_submission_says_where_ones_own_are(client, alice, local, settings):
    page = page_of(client, scenes.submit(alice))
    assert f'<a href="{settings.SITE_URL}/submissions/"' in page


def test_a_pause_says_why(as_alice, client, alice, local):
    ProfileState.objects.create(profile="cpux2", is_paused=True, note="The fans are being replaced.")
    page = page_of(as_alice, scenes.submit(alice))
    assert "Reason: The fans are being replaced." in page
    assert "The fans are being replaced." in client.get("/nodes/").content.decode()
    assert "The fans are being replaced." in as_alice.get("/problems/allreduce/submit/").content.decode()
