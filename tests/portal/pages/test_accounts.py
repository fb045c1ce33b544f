"""Signing up, signing in, and tokens."""

from django.core.cache import cache

from portal.accounts import actions
from portal.accounts.models import ApiToken, User
from tests.portal.pages import scenes

SIGN_UP = {"username": "dora", "password": scenes.PASSWORD, "repeated": scenes.PASSWORD}


def make_token(client, **changes):
    """Send the form for a token, after showing again who one is."""
    cache.clear()  # allauth's limit by account
    client.post("/accounts/again/", {"password": scenes.PASSWORD})
    return client.post("/accounts/", {"name": "laptop", "scopes": ["read"], "lifetime_days": "30", **changes})


def test_signing_up_signs_in_and_leads_back(client, db):
    response = client.post("/accounts/sign-up/", {**SIGN_UP, "next": "/problems/allreduce/submit/"})
    assert response["Location"] == "/problems/allreduce/submit/"
    assert client.get("/accounts/").status_code == 200
    assert User.objects.filter(username="dora").exists()


def test_signing_up_never_leads_to_another_site(client, db):
    response = client.post("/accounts/sign-up/", {**SIGN_UP, "next": "https://evil.example/"})
    assert response["Location"] == "/problems/"


def test_a_public_page_says_what_its_owner_wants_and_links_nothing_else(client, alice):
    client.force_login(alice)
    assert 'href="/leaderboards/people/alice/"' in client.get("/accounts/").content.decode()
    said = {"display_name": "Alice <Liddell>", "affiliation": "Wonderland", "website": "javascript:alert(1)"}
    refused = client.post("/accounts/public/", said)
    assert refused.status_code == 422
    saved = client.post("/accounts/public/", said | {"website": "https://example.org/~alice"}, follow=True)
    page = saved.content.decode()
    assert saved.redirect_chain[-1][0] == "/leaderboards/people/alice/"
    assert "Alice &lt;Liddell&gt;" in page
    assert "Wonderland" in page
    assert 'href="https://example.org/~alice" rel="nofollow ugc noopener"' in page


def test_a_taken_name_is_a_409_beside_the_field(client, alice):
    response = client.post("/accounts/sign-up/", {**SIGN_UP, "username": "Alice"})
    assert response.status_code == 409
    assert b"This name is taken." in response.content


def test_a_weak_password_and_two_different_ones_are_refused(client, db):
    weak = client.post("/accounts/sign-up/", {**SIGN_UP, "password": "12345678", "repeated": "12345678"})
    different = client.post("/accounts/sign-up/", {**SIGN_UP, "repeated": "another"})
    assert (weak.status_code, different.status_code) == (422, 422)
    assert b"too common" in weak.content
    assert b"The two passwords differ." in different.content
    # All that is wrong is named at once.
    every = client.post("/accounts/sign-up/", {"username": "a name", "password": "short", "repeated": "other"}).content
    for said in (b"a character that is not allowed", b"This password is too short", b"The two passwords differ."):
        assert said in every
    assert not User.objects.exists()


def test_signing_in_and_out(client, alice):
    response = client.post("/accounts/sign-in/", {"username": "alice", "password": scenes.PASSWORD})
    assert response["Location"] == "/submissions/"
    assert client.get("/accounts/sign-out/").status_code == 405
    client.post("/accounts/sign-out/")
    assert client.get("/submissions/").status_code == 302


def test_a_wrong_password_names_neither_part_as_wrong(client, alice):
    page = client.post("/accounts/sign-in/", {"username": "alice", "password": "wrong"}).content
    assert b"Wrong name or password" in page


def test_a_token_is_shown_once_and_kept_only_as_a_digest(as_alice, alice):
    made = make_token(as_alice).content.decode()
    token = ApiToken.objects.get(user=alice)
    secret = made.split('id="secret">')[1].split("<")[0]
    assert secret.startswith(token.prefix)
    assert secret not in as_alice.get("/accounts/").content.decode()
    assert token.digest != secret


def test_a_token_without_a_scope_or_with_an_odd_lifetime_is_refused(as_alice):
    for change in ({"scopes": []}, {"lifetime_days": "100000"}, {"name": ""}):
        assert make_token(as_alice, **change).status_code == 422
    assert not ApiToken.objects.exists()


def test_revoking(as_alice, alice):
    make_token(as_alice)
    token = ApiToken.objects.get()
    page = as_alice.post(f"/accounts/tokens/{token.pk}/revoke/", follow=True).content.decode()
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert "was revoked" in page


def test_another_persons_token_is_a_404(as_alice, client, bob):
    token, _ = actions.create_token(bob, name="his", scopes=["read"], lifetime_days=30)
    assert client.post(f"/accounts/tokens/{token.pk}/revoke/").status_code == 404


def test_changing_the_password(as_alice, alice):
    new = "a quite different phrase"
    sent = {"old_password": scenes.PASSWORD, "new_password1": new, "new_password2": new}
    assert as_alice.post("/accounts/password/", sent)["Location"] == "/accounts/"
    alice.refresh_from_db()
    assert alice.check_password(new)


def test_a_form_without_its_token_gets_the_designed_page(alice):
    from django.test import Client

    response = Client(enforce_csrf_checks=True).post("/accounts/sign-in/", {"username": "alice", "password": "x"})
    assert response.status_code == 403
    assert b"The form has expired" in response.content
