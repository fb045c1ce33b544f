"""What `create_submission` accepts and refuses."""

import pytest

from evaluator.contract import Mode
from portal.catalog.models import ProblemSwitch
from portal.core.errors import Refusal
from portal.submissions import access, actions, queries
from portal.submissions.models import Evaluation, Source, State, Submission
from portal.submissions.queries import request_of
from tests.portal.factories import SOLUTION, bundle, evaluation_of, submit

pytestmark = pytest.mark.django_db


def refused(author, **changes) -> Refusal:
    """The refusal of a submission with `changes`, after making sure that nothing was stored."""
    with pytest.raises(Refusal) as caught:
        submit(author, **changes)
    return caught.value


def test_it_works(alice):
    submission = submit(alice, note="  first  ", files=bundle(SOLUTION))
    evaluation = evaluation_of(submission)
    assert (submission.note, submission.visibility) == ("first", "private")
    assert (evaluation.state, evaluation.profile, evaluation.mode, evaluation.attempt) == (
        State.QUEUED,
        "cpux2",
        "ranked",
        1,
    )
    assert submission.source.files.entry == SOLUTION


def test_the_same_content_is_stored_once(alice, bob):
    submit(alice, files=bundle(SOLUTION))
    submit(bob, files=bundle(SOLUTION))
    assert Source.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "field", "status"),
    [
        ({"problem": "allredcue"}, "problem", 404),
        ({"profile": "cpux3"}, "profile", 422),
        ({"backend": "opencl"}, "backend", 422),
        ({"mode": "fast"}, "mode", 422),
        ({"visibility": "friends"}, "visibility", 422),
        ({"backend": "cuda"}, "backend", 422),
        ({"files": bundle("x = 1\n")}, "file", 422),
        ({"files": bundle("def solution(:\n")}, "file", 422),
        ({"files": bundle("def solution(a, b, c, d, e, f):\n    return a\n")}, "file", 422),
    ],
)
def test_bad_input_is_refused_by_field_and_stores_nothing(alice, changes, field, status):
    refusal = refused(alice, **changes)
    assert (refusal.field, refusal.status) == (field, status)
    assert refusal.message
    assert refusal.remedy
    assert not Submission.objects.exists()
    assert not Source.objects.exists()


def test_a_backend_that_the_profile_cannot_judge_is_named_with_what_it_can(alice):
    refusal = refused(alice, backend="cuda")
    assert refusal.message == "cpux2 judges only pytorch."
    assert refusal.remedy == "Choose one of pytorch, or a profile that judges cuda."


def test_a_backend_that_no_profile_judges_any_more_is_looked_for_nowhere(alice):
    refusal = refused(alice, backend="parallelkittens")
    assert (refusal.field, refusal.remedy) == ("backend", "Choose one of pytorch.")


def test_a_syntax_error_is_named_with_its_line(alice):
    refusal = refused(alice, files=bundle("import torch\ndef solution(:\n"))
    assert "line 2" in refusal.message


def test_a_closed_problem_takes_nothing(alice):
    ProblemSwitch.objects.create(slug="allreduce", is_open=False, note="Being repaired.")
    refusal = refused(alice)
    assert (refusal.status, refusal.field) == (409, "problem")
    assert "Being repaired." in refusal.message


def test_the_same_source_twice_in_the_queue_names_the_first(alice):
    first = submit(alice, files=bundle(SOLUTION))
    refusal = refused(alice, files=bundle(SOLUTION))
    assert (refusal.status, refusal.value) == (409, str(first.pk))
    assert f"/submissions/{first.pk}/" in refusal.remedy
    actions.cancel_evaluation(evaluation_of(first), by=alice)
    assert submit(alice, files=bundle(SOLUTION)).pk != first.pk


def test_what_an_operator_has_judged_again_keeps_nobody_from_submitting(alice):
    first = submit(alice, files=bundle(SOLUTION))
    actions.cancel_evaluation(evaluation_of(first), by=alice)
    assert len(actions.rejudge(Evaluation.objects.select_related("submission"))) == 1
    assert submit(alice, files=bundle(SOLUTION)).pk != first.pk


def test_the_same_source_in_another_mode_is_another_evaluation(alice):
    submit(alice, files=bundle(SOLUTION))
    submit(alice, files=bundle(SOLUTION), mode="check")
    assert Evaluation.objects.count() == 2


def test_the_same_idempotency_key_gives_the_same_submission(alice, bob):
    first = submit(alice, files=bundle(SOLUTION), idempotency_key="k1")
    assert submit(alice, files=bundle(SOLUTION), idempotency_key="k1").pk == first.pk
    assert submit(bob, files=bundle(SOLUTION), idempotency_key="k1").pk != first.pk
    assert Evaluation.objects.count() == 2
    assert refused(alice, idempotency_key="k1").message.endswith(f", {first.pk}: source is another.")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"problem": "allgather"}, "problem is allgather and was allreduce"),
        ({"profile": "cpux4"}, "profile is cpux4 and was cpux2"),
        ({"mode": "check"}, "mode is check and was ranked"),
        ({"visibility": "public"}, "visibility is public and was private"),
        (
            {"mode": "check", "backend": "cuda", "profile": "h200x8-nomc"},
            "backend is cuda and was pytorch; profile is h200x8-nomc",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_an_idempotency_key_with_another_request_is_refused_and_says_what_differs(alice, changes, words):
    first = submit(alice, files=bundle(SOLUTION), idempotency_key="k1")
    refusal = refused(alice, files=bundle(SOLUTION), idempotency_key="k1", **changes)
    assert (refusal.status, refusal.field, refusal.value) == (409, "idempotency_key", "k1")
    assert f"{first.pk}: {words}" in refusal.message
    assert "another key" in refusal.remedy
    assert Evaluation.objects.count() == 1


def test_an_idempotency_key_gives_the_same_submission_whatever_was_done_with_it_since(alice):
    first = submit(alice, files=bundle(SOLUTION), idempotency_key="k1")
    actions.cancel_evaluation(evaluation_of(first), by=alice)
    actions.queue_evaluation(first, profile="cpux4", mode="check")
    actions.set_visibility(first, visibility="public", by=alice)
    assert submit(alice, files=bundle(SOLUTION), idempotency_key="k1", note="again").pk == first.pk
    assert (
        "visibility is public"
        in refused(alice, files=bundle(SOLUTION), idempotency_key="k1", visibility="public").message
    )


def test_a_submission_older_than_what_is_kept_of_its_visibility_is_still_given(alice):
    first = submit(alice, files=bundle(SOLUTION), idempotency_key="k1")
    Submission.objects.update(requested_visibility="")
    assert submit(alice, files=bundle(SOLUTION), idempotency_key="k1", visibility="public").pk == first.pk


def test_a_full_queue_refuses_more(alice, settings):
    settings.MAX_QUEUED_PER_AUTHOR = 2
    first = submit(alice)
    submit(alice)
    assert refused(alice).status == 429
    actions.cancel_evaluation(evaluation_of(first), by=alice)
    submit(alice)


def test_a_rejudge_adds_an_evaluation(alice):
    submission = submit(alice)
    with pytest.raises(Refusal, match="already in the queue"):
        actions.queue_evaluation(submission, profile="cpux2", mode="ranked")
    actions.cancel_evaluation(evaluation_of(submission), by=alice)
    again = actions.queue_evaluation(submission, profile="cpux2", mode="ranked", priority=5)
    assert submission.evaluations.count() == 2
    assert queries.evaluations_of(submission)[0] == again


def test_a_profile_of_another_size_is_another_evaluation(alice):
    submission = submit(alice, mode="profile", profile="h200x2-nomc", size="large")
    asked = request_of(evaluation_of(submission))
    assert (asked.mode, asked.sizes) == (Mode.PROFILE, ("large",))
    with pytest.raises(Refusal, match="already in the queue"):
        actions.queue_evaluation(submission, profile="h200x2-nomc", mode="profile", size="large")
    whole = actions.queue_evaluation(submission, profile="h200x2-nomc", mode="profile")
    assert request_of(whole).sizes == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": "ranked", "size": "tiny"}, "Mode ranked has sizes of its own"),
        ({"mode": "profile", "size": "large"}, "cpux2 judges no such size"),
    ],
)
def test_a_size_that_cannot_be_chosen_is_refused(alice, changes, words):
    refusal = refused(alice, **changes)
    assert (refusal.status, refusal.field) == (422, "size")
    assert words in refusal.message


def test_the_same_key_with_another_size_is_refused(alice):
    asked = {"mode": "profile", "profile": "h200x2-nomc", "files": bundle(SOLUTION), "idempotency_key": "k1"}
    submit(alice, size="large", **asked)
    assert "size is" in refused(alice, size="base", **asked).message


def test_a_private_submission_is_seen_by_its_author_and_staff_only(alice, bob, operator):
    submission = submit(alice)
    assert access.get_submission(alice, str(submission.pk)) == submission
    assert access.readable_source(operator, submission) is not None
    assert access.readable_source(bob, submission) is None
    with pytest.raises(Refusal) as caught:
        access.get_submission(bob, submission.pk)
    assert caught.value.status == 404
    with pytest.raises(Refusal, match="another author"):
        actions.set_visibility(submission, visibility="public", by=bob)
    actions.set_visibility(submission, visibility="public", by=alice)
    assert access.get_submission(bob, submission.pk) == submission
    assert access.readable_source(bob, submission) is not None


def test_a_malformed_id_is_not_found(alice):
    with pytest.raises(Refusal) as caught:
        access.get_submission(alice, "not-an-id")
    assert caught.value.status == 404


def test_cancelling_is_for_the_author_and_happens_once(alice, bob):
    evaluation = evaluation_of(submit(alice))
    with pytest.raises(Refusal) as caught:
        actions.cancel_evaluation(evaluation, by=bob)
    assert caught.value.status == 403
    actions.cancel_evaluation(evaluation, by=alice)
    assert evaluation.state == State.CANCELLED
    with pytest.raises(Refusal) as caught:
        actions.cancel_evaluation(evaluation, by=alice)
    assert caught.value.status == 409
