"""What operators do is written down, and stays written."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse

from portal.accounts import actions
from portal.accounts.models import User
from tests.portal.pages import scenes
from tests.portal.pages.conftest import quick_pages  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_operator(client, operator):
    operator.user_permissions.set(Permission.objects.all())
    client.force_login(operator)
    return client


def test_what_an_operator_does_on_a_page_is_written_down(as_operator, operator, alice):
    submission = scenes.submit(alice)
    as_operator.post(f"/submissions/{submission.pk}/visibility/", {"visibility": "public", "reason": "asked for"})
    line = LogEntry.objects.get()
    assert (line.user, line.object_id) == (operator, str(submission.pk))
    assert line.change_message == "submissions:visibility: asked for"


def test_what_an_operator_does_with_a_token_is_written_down(client, operator, alice):
    submission = scenes.submit(alice)
    _, secret = actions.create_token(operator, name="laptop", scopes=["submit"], lifetime_days=1)
    client.post(f"/api/v1/submissions/{submission.pk}/cancel/", headers={"Authorization": f"Bearer {secret}"})
    assert LogEntry.objects.get().change_message == "api:cancel"


def test_nobody_else_and_nothing_that_failed_is_written_down(client, as_operator, alice):
    submission = scenes.submit(alice)
    as_operator.post(f"/submissions/{submission.pk}/visibility/", {"visibility": "nonsense"})
    as_operator.get(f"/submissions/{submission.pk}/")
    client.force_login(alice)
    client.post(f"/submissions/{submission.pk}/visibility/", {"visibility": "public"})
    assert not LogEntry.objects.exists()


def test_a_ban_is_written_down_with_its_reason(as_operator, alice):
    address = reverse("admin:accounts_user_changelist")
    sent = {"action": "close_accounts", "_selected_action": alice.pk, "confirmed": "1", "reason": "spam"}
    as_operator.post(address, sent)
    assert "spam" in LogEntry.objects.get().get_change_message()
    assert not User.objects.get(pk=alice.pk).is_active


def test_who_was_banned_reads_why_and_who_knows_no_password_reads_nothing(client, as_operator, alice):
    _, secret = actions.create_token(alice, name="tests", scopes=["read"], lifetime_days=1)
    actions.set_active(alice, is_active=False, by=User.objects.get(username="operator"), reason="forged reports")
    client.logout()
    sign_in = reverse("accounts:sign-in")
    told = client.post(sign_in, {"username": "alice", "password": "a long pass phrase"}).content.decode()
    assert "An operator closed this account: forged reports." in told
    guessed = client.post(sign_in, {"username": "alice", "password": "a guess"}).content.decode()
    assert "forged reports" not in guessed
    assert "Wrong name or password" in guessed
    answer = client.get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 401
    assert "forged reports" in answer.json()["detail"]


def test_the_log_is_read_and_never_changed(as_operator, operator, alice):
    actions.set_active(alice, is_active=False, by=operator)
    LogEntry.objects.log_actions(operator.pk, [alice], 2, "Account closed: spam", single_object=True)
    page = as_operator.get(reverse("admin:admin_logentry_changelist"))
    assert b"Account closed: spam" in page.content
    line = LogEntry.objects.get()
    assert as_operator.post(reverse("admin:admin_logentry_delete", args=[line.pk]), {"post": "yes"}).status_code == 403
    assert as_operator.post(reverse("admin:admin_logentry_change", args=[line.pk]), {}).status_code == 403
    assert as_operator.post(reverse("admin:admin_logentry_add"), {}).status_code == 403
    assert LogEntry.objects.get().change_message == line.change_message


def test_the_operators_pages_say_times_in_utc_as_all_pages_do(as_operator, alice):
    queued = scenes.submit(alice).evaluations.get().queued_at
    text = as_operator.get(reverse("admin:submissions_evaluation_changelist")).content.decode()
    assert f"{queued:%Y-%m-%d %H:%M} UTC" in text
