"""Two at once: threads with connections of their own compete for rows, as processes do."""

import threading

import pytest
from django.core.cache import caches
from django.db import connection
from django.db.transaction import TransactionManagementError
from django.test import Client

from portal.accounts import actions as accounts
from portal.accounts.models import User
from portal.accounts.organisations import MAX_OWNED, create_organisation
from portal.core.errors import Refusal
from portal.dispatcher.assign import dispatch_once
from portal.dispatcher.leases import sweep
from portal.nodes.models import Node, Slot
from portal.privacy.actions import Entries, delete_account
from portal.ranking.models import Board, Standing
from portal.submissions import actions, lifecycle
from portal.submissions.models import Evaluation, Report, State, Submission
from tests.portal.factories import SOLUTION, bundle, delivery_of, evaluation_of, submit

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*works):
    """Run all `works` in threads that start together; their results, or what they raised, in order."""
    barrier = threading.Barrier(len(works))
    results = [None] * len(works)

    def run(index, work):
        barrier.wait()
        try:
            results[index] = work()
        except Refusal as refusal:
            results[index] = refusal
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index, work)) for index, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_two_dispatchers_never_send_the_same_work_or_fill_a_slot_twice(node, now):
    for index in range(1, 6):
        Slot.objects.create(node=node, index=index, profile="cpux2", state="free")
    for number in range(8):
        submit(User.objects.create_user(f"author-{number}"))
    sent = []

    def send(name, assignment, *, valid_for_s):
        sent.append((assignment.request.evaluation_id, assignment.slot))

    counts = at_once(*[lambda: dispatch_once(now, send=send)] * 4)
    assert sum(counts) == len(sent) == 6
    assert len({evaluation for evaluation, _ in sent}) == 6
    assert {slot for _, slot in sent} == set(range(6))
    assert Evaluation.objects.filter(state=State.LEASED).count() == 6


def test_a_report_that_arrives_twice_at_once_counts_once(alice, node, now):
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=lambda *_, **__: None)
    delivery = delivery_of(evaluation)
    assert sorted(at_once(*[lambda: actions.record_delivery(delivery, now)] * 4)) == [False, False, False, True]
    assert (Report.objects.count(), Standing.objects.count()) == (1, 1)


def test_of_a_cancel_and_a_report_at_once_exactly_one_wins(alice, node, now):
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=lambda *_, **__: None)
    delivery = delivery_of(evaluation)
    cancelled, recorded = at_once(
        lambda: actions.cancel_evaluation(evaluation, by=alice),
        lambda: actions.record_delivery(delivery, now),
    )
    state = Evaluation.objects.get().state
    if recorded:
        assert state == State.FINISHED
        assert cancelled.status == 409
    else:
        assert state == State.CANCELLED
        assert cancelled is None
    assert Report.objects.count() == Standing.objects.count() == int(recorded)


def test_two_sweeps_at_once_count_a_lost_try_once(alice, node, now, later, settings):
    submit(alice)
    dispatch_once(now, send=lambda *_, **__: None)
    lifecycle.note_running(node, Evaluation.objects.values_list("pk", flat=True), now)
    end = later(settings.LEASE_SECONDS + 2)
    Node.objects.update(seen_at=end)
    assert sorted(at_once(*[lambda: sweep(end)] * 3)) == [0, 0, 1]
    assert Evaluation.objects.get().attempt == 2


def test_the_same_submission_twice_at_once_is_stored_once(alice):
    work = lambda: submit(alice, files=bundle(SOLUTION))  # noqa: E731
    results = at_once(*[work] * 3)
    assert sum(isinstance(result, Submission) for result in results) == 1
    assert {result.status for result in results if isinstance(result, Refusal)} == {409}
    assert Evaluation.objects.count() == 1


def test_the_same_idempotency_key_twice_at_once_is_one_submission(alice):
    work = lambda: submit(alice, files=bundle(SOLUTION), idempotency_key="once")  # noqa: E731
    assert len({result.pk for result in at_once(*[work] * 3)}) == 1
    assert Evaluation.objects.count() == 1


def test_of_two_requests_at_once_under_one_idempotency_key_the_second_is_refused(alice):
    files = bundle(SOLUTION)
    results = at_once(
        lambda: submit(alice, files=files, idempotency_key="once", profile="cpux2"),
        lambda: submit(alice, files=files, idempotency_key="once", profile="cpux4"),
    )
    [refusal] = [result for result in results if isinstance(result, Refusal)]
    assert refusal.status == 409
    assert "profile is cpux" in refusal.message
    assert Evaluation.objects.get().submission in results


def test_the_last_place_in_an_authors_queue_is_given_once(alice, settings):
    settings.MAX_QUEUED_PER_AUTHOR = 1
    results = at_once(*[lambda: submit(alice)] * 3)
    assert sum(isinstance(result, Submission) for result in results) == 1
    assert {result.status for result in results if isinstance(result, Refusal)} == {429}


def test_of_two_reports_of_one_author_at_once_the_better_stands(alice, node, now):
    Slot.objects.create(node=node, index=1, profile="cpux2", state="free")
    first, second = evaluation_of(submit(alice)), evaluation_of(submit(alice))
    dispatch_once(now, send=lambda *_, **__: None)
    low, high = delivery_of(first, low=1.0), delivery_of(second, low=2.0)
    at_once(lambda: actions.record_delivery(low, now), lambda: actions.record_delivery(high, now))
    assert Standing.objects.get().score_low == 2.0


def test_the_last_gpu_seconds_of_a_day_are_given_once(alice, settings):
    settings.GPU_SECONDS_PER_DAY = 300.0
    results = at_once(*[lambda: submit(alice, profile="h200x8-nomc")] * 3)
    assert sum(isinstance(result, Submission) for result in results) == 1
    assert {result.status for result in results if isinstance(result, Refusal)} == {429}


def test_an_entry_that_passes_while_it_is_put_into_quarantine_stands_on_no_board(alice, operator, node, now):
    submission = submit(alice)
    dispatch_once(now, send=lambda *_, **__: None)
    delivery = delivery_of(evaluation_of(submission), low=2.0)
    at_once(
        lambda: actions.record_delivery(delivery, now),
        lambda: actions.quarantine(submission, reason="It caches.", by=operator),
    )
    assert not Standing.objects.exists()
    assert not Board.objects.filter(entries__gt=0).exists()


def test_of_two_quarantines_at_once_one_is_refused_and_of_two_flags_too(alice, bob, operator):
    submission = submit(alice, visibility="public")
    for act, by in ((actions.quarantine, operator), (actions.flag, bob)):
        results = at_once(*[lambda act=act, by=by: act(submission, reason="It caches.", by=by)] * 2)
        assert [result.status for result in results if isinstance(result, Refusal)] == [409]


def test_an_account_is_locked_in_a_transaction_alone(alice):
    with pytest.raises(TransactionManagementError):
        accounts.lock_account(alice)


@pytest.mark.parametrize("round_", range(3))
def test_nothing_that_was_asked_for_at_once_outlives_a_deleted_account(alice, round_):
    secrets = at_once(
        lambda: delete_account(alice, entries=Entries.KEEP),
        *[lambda: accounts.create_token(alice, name="late", scopes=["read"], lifetime_days=1)] * 4,
        *[lambda number=number: submit(alice, files=bundle(f"{SOLUTION}# {number}\n")) for number in range(4)],
    )[1:5]
    assert not alice.tokens.exists()
    assert not Evaluation.objects.filter(state__in=State.unfinished()).exists()
    for made in secrets:
        refused = made if isinstance(made, Refusal) else at_once(lambda made=made: accounts.authenticate(made[1]))[0]
        assert refused.status == 401


def test_of_sign_ups_at_once_under_one_look_one_makes_an_account():
    names = ["racer", "RACER", "rac3r", "ra.cer"]
    at_once(*[lambda name=name: accounts.sign_up(username=name, password="a long pass phrase") for name in names])
    assert User.objects.filter(confusable_key="racer").count() == 1


def test_the_last_organisation_that_somebody_may_own_is_made_once(alice):
    made = at_once(
        *[
            lambda number=number: create_organisation(alice, slug=f"lab-{number}", name="Lab")
            for number in range(MAX_OWNED + 4)
        ]
    )
    assert sum(isinstance(each, Refusal) for each in made) == 4
    assert alice.memberships.count() == MAX_OWNED


@pytest.fixture
def no_attempts_counted():
    """No counters before, and none after: their table is no model's, so nothing empties it with the others."""
    caches["attempts"].clear()
    yield
    caches["attempts"].clear()


def test_wrong_passwords_sent_at_once_are_no_more_tries_than_one_after_the_other(no_attempts_counted, alice, settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    wrong = {"username": "alice", "password": "wrong"}
    answers = at_once(*[lambda: Client().post("/accounts/sign-in/", wrong).status_code] * 12)
    assert sorted(answers) == [200] * 6 + [429] * 6
