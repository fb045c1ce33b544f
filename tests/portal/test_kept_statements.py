"""A statement that is made once answers as its query does, whichever values a call brings."""

import uuid
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection
from django.db.models import CharField, Count, DateTimeField, F, UUIDField
from django.db.transaction import TransactionManagementError, atomic
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.actions import lock_account
from portal.core.kept_statements import Given, KeptInsert, KeptStatement
from portal.submissions.models import Evaluation, Source, Submission
from tests.portal.factories import submit

pytestmark = pytest.mark.django_db


def test_every_call_answers_for_its_own_values(alice, bob):
    mine, theirs = submit(alice), submit(bob)
    statement = KeptStatement(
        lambda: Submission.objects.filter(author__username=Given("name", CharField())).values_list("pk", "created_at")
    )
    assert statement.rows(name="alice") == [(mine.pk, mine.created_at)]
    assert statement.row(name="bob") == (theirs.pk, theirs.created_at)
    assert statement.row(name="carol") is None


def test_values_are_of_the_kind_that_the_statement_names(alice):
    submission = submit(alice)
    statement = KeptStatement(
        lambda: (
            Submission.objects.filter(pk=Given("pk", UUIDField()), created_at__lt=Given("before", DateTimeField()))
            .order_by()
            .values_list("problem")
            .annotate(number=Count("pk"))
        )
    )
    soon = timezone.now() + timedelta(minutes=1)
    assert statement.rows(pk=submission.pk, before=soon) == [("allreduce", 1)]
    assert statement.rows(pk=str(submission.pk), before=soon) == [("allreduce", 1)]
    assert statement.rows(pk=submission.pk, before=submission.created_at) == []
    assert statement.rows(pk=uuid.uuid4(), before=soon) == []


def test_the_query_is_made_for_the_first_call_alone(alice):
    made = []

    def query():
        made.append(1)
        return Submission.objects.filter(author__username=Given("name", CharField())).values_list("pk")

    statement = KeptStatement(query)
    assert not made
    with CaptureQueriesContext(connection) as sent:
        statement.rows(name="alice")
        statement.rows(name="bob")
    assert (len(made), len(sent)) == (1, 2)


def test_several_calls_are_one_statement_and_each_has_its_own_rows(alice):
    evaluation = submit(alice).evaluations.get()
    evaluation.started_at = evaluation.queued_at + timedelta(seconds=1.5)
    evaluation.save()
    statement = KeptStatement(
        lambda: (
            Evaluation.objects.filter(profile=Given("profile", CharField()))
            .annotate(waited=F("started_at") - F("queued_at"))
            .values_list("pk", "waited")
        )
    )
    with CaptureQueriesContext(connection) as sent:
        found = statement.rows_of_each([{"profile": "h200x2"}, {"profile": evaluation.profile}])
    assert found == [[], [(evaluation.pk, timedelta(seconds=1.5))]]
    assert len(sent) == 1
    assert statement.rows_of_each([]) == []


def test_what_an_insert_stores_is_read_back_with_a_key_of_its_own(alice):
    kept = submit(alice)
    insert = KeptInsert(Source)
    first, second = (Source(digest=digest * 64, bundle={"files": [digest]}, size_bytes=7) for digest in "ab")
    assert insert.store(first)
    assert insert.store(second)
    assert len({kept.source_id, first.pk, second.pk}) == 3
    assert (Source.objects.get(pk=second.pk).bundle, Source.objects.get(pk=first.pk).digest) == (
        {"files": ["b"]},
        "a" * 64,
    )
    second.size_bytes = 8
    second.save()  # a stored row is changed, not stored once more
    assert list(Source.objects.filter(digest="b" * 64).values_list("size_bytes", flat=True)) == [8]

    copied = Submission(author=alice, problem="allreduce", source=first, backend="cuda", note="a note")
    KeptInsert(Submission).store(copied)
    found = Submission.objects.get(pk=copied.pk)
    assert (found.author, found.source, found.note) == (alice, first, "a note")
    assert (found.idempotency_key, found.created_at) == (None, copied.created_at)


def test_a_row_that_is_there_stays_as_it_is(alice):
    kept = submit(alice).source
    again = Source(digest=kept.digest, bundle={}, size_bytes=0)
    assert not KeptInsert(Source, unless_there=True).store(again)
    assert Source.objects.get(digest=kept.digest).bundle == kept.bundle
    with pytest.raises(IntegrityError), atomic():
        KeptInsert(Source).store(again)


@pytest.mark.django_db(transaction=True)
def test_an_account_is_locked_in_a_transaction_alone(alice):
    with pytest.raises(TransactionManagementError):
        lock_account(alice)
