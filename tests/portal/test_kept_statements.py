"""A statement that is made once answers as its query does, whichever values a call brings."""

import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import CharField, Count, DateTimeField, UUIDField
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.actions import lock_account
from portal.kept_statements import Given, KeptStatement
from portal.submissions.models import Submission
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


@pytest.mark.django_db(transaction=True)
def test_an_account_is_locked_in_a_transaction_alone(alice):
    with pytest.raises(TransactionManagementError):
        lock_account(alice)
