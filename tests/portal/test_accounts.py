"""Signing up, and the tokens that programs sign in with."""

import stat

import pytest
from django.core.management import CommandError, call_command

from portal.accounts import actions
from portal.accounts.models import ApiToken, User
from portal.core.errors import Refusal
from portal.nodes.models import Node

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery staple"


def refused(call, *arguments, **keywords):
    with pytest.raises(Refusal) as caught:
        call(*arguments, **keywords)
    assert caught.value.message
    assert caught.value.remedy
    return caught.value


def token_of(user, **changes):
    return actions.create_token(user, **({"name": "laptop", "scopes": ["read"], "lifetime_days": 30} | changes))


def test_who_signs_up_can_sign_in():
    user = actions.sign_up(username="carol", password=PASSWORD)
    assert User.objects.get(username="carol").check_password(PASSWORD)
    assert (user.is_staff, user.is_active) == (False, True)


@pytest.mark.parametrize(
    ("changes", "field", "status"),
    [
        ({"username": "alice"}, "username", 409),
        ({"username": "ALICE"}, "username", 409),
        ({"username": ""}, "username", 422),
        ({"username": "a b"}, "username", 422),
        ({"username": "x" * 200}, "username", 422),
        ({"username": "x" * 41}, "username", 422),
        ({"username": ".."}, "username", 422),  # its profile's address would be that of all boards
        ({"username": "."}, "username", 422),
        ({"username": "-carol"}, "username", 422),
        ({"username": "admin"}, "username", 422),
        ({"username": "Operator"}, "username", 422),
        ({"username": "pkb"}, "username", 422),
        ({"password": "short"}, "password", 422),
        ({"password": "password123"}, "password", 422),
        ({"email": "not an address"}, "email", 422),
    ],
)
def test_bad_sign_ups_are_refused(alice, changes, field, status):
    refusal = refused(actions.sign_up, **({"username": "carol", "password": PASSWORD} | changes))
    assert (refusal.field, refusal.status) == (field, status)
    assert User.objects.count() == 1


def test_a_refusal_never_repeats_the_password():
    assert refused(actions.sign_up, username="carol", password="hunter2").value == ""


def test_a_token_signs_in_and_only_its_hash_is_kept(alice):
    token, secret = token_of(alice)
    assert secret.startswith("pkb_")
    assert actions.authenticate(secret) == token
    assert secret not in str(ApiToken.objects.values().get())
    token.refresh_from_db()
    assert token.last_used_at is not None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read", "admin"]}, "scopes"),
        ({"lifetime_days": 0}, "lifetime_days"),
        ({"lifetime_days": 10_000}, "lifetime_days"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(alice, changes, field):
    assert refused(token_of, alice, **changes).field == field
    assert not ApiToken.objects.exists()


def test_an_unknown_token_is_refused():
    assert refused(actions.authenticate, "pkb_guessed").status == 401


def test_an_expired_token_says_so(alice, later):
    token, secret = token_of(alice)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=later(-1))
    refusal = refused(actions.authenticate, secret)
    assert refusal.status == 401
    assert "expired" in refusal.message
    assert secret not in refusal.value


def test_a_revoked_token_says_so(alice):
    token, secret = token_of(alice)
    actions.revoke_token(token)
    assert "revoked" in refused(actions.authenticate, secret).message


def test_the_token_of_a_closed_account_is_refused(alice):
    _, secret = token_of(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert "closed" in refused(actions.authenticate, secret).message


def test_there_is_a_most_of_live_tokens(alice, monkeypatch):
    monkeypatch.setattr(actions, "MAX_LIVE_TOKENS", 1)
    token, _ = token_of(alice)
    assert refused(token_of, alice).status == 409
    actions.revoke_token(token)
    token_of(alice)


def test_bootstrap_makes_operator_and_node_once(settings, tmp_path, capsys):
    settings.DATA_DIR = tmp_path
    (tmp_path / "env").write_text("PKB_SECRET_KEY=kept\n")
    call_command("bootstrap")
    password = (tmp_path / "operator.txt").read_text().split("password: ")[1].strip()
    assert password in capsys.readouterr().out
    assert User.objects.get(username="operator").check_password(password)
    first = (tmp_path / "env").read_text()
    assert "PKB_SECRET_KEY=kept\n" in first
    assert "PKB_NODE_NAME=local\n" in first
    assert "UNSANDBOXED" not in first
    for name in ("env", "operator.txt"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    call_command("bootstrap")
    assert (tmp_path / "env").read_text() == first
    assert capsys.readouterr().out == ""
    assert (User.objects.count(), Node.objects.count()) == (1, 1)


def test_bootstrap_refuses_a_production_site(settings):
    settings.IS_EMBEDDED = False
    with pytest.raises(CommandError, match="node_add"):
        call_command("bootstrap")


def test_a_node_is_added_once_and_its_key_can_be_replaced(capsys):
    call_command("node_add", "gpu-1")
    key = capsys.readouterr().out.split("PKB_NODE_KEY=")[1].strip()
    with pytest.raises(CommandError, match="--new-key"):
        call_command("node_add", "gpu-1")
    call_command("node_add", "gpu-1", "--new-key")
    assert capsys.readouterr().out.split("PKB_NODE_KEY=")[1].strip() != key
    with pytest.raises(CommandError, match="lower-case"):
        call_command("node_add", "GPU 1")
