"""The ways in beside a password: another site's account, a code of an app, a link by mail, an invitation."""

import json
import os
import re
import subprocess
import sys

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.cache import cache, caches
from django.test import Client

from portal.accounts import actions, throttle
from portal.accounts.models import User
from portal.core.errors import Refusal
from tests.portal.sign_in import mail_server, openid_provider, there_and_back

pytestmark = pytest.mark.django_db
PASSWORD = "a long pass phrase"
LAB = "/accounts/oidc/lab/"


@pytest.fixture(autouse=True)
def _plain_pages(settings):
    cache.clear()  # the limits that allauth counts by account
    caches["attempts"].clear()
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture(scope="module")
def provider():
    ruth = {"sub": "ruth-at-lab", "preferred_username": "ruth", "email": "alice@example.org", "email_verified": True}
    with openid_provider(json.dumps(ruth)) as address:
        yield address


@pytest.fixture
def lab(settings, provider):
    """The provider, configured as PKB_OIDC=lab does it."""
    app = {"provider_id": "lab", "name": "The Lab", "client_id": "site", "secret": "secret"}
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            "APPS": [app | {"settings": {"server_url": provider, "oauth_pkce_enabled": True}}],
            "SCOPE": ["openid", "profile"],
        }
    }
    return provider


def sign_in(client, **more):
    return client.post("/accounts/sign-in/", {"username": "alice", "password": PASSWORD, **more})


def show_again(client):
    return client.post("/accounts/again/", {"password": PASSWORD})


def grow_old(client, seconds=4000):
    """Move what the session says of when its owner showed who they are into the past."""
    session = client.session
    for method in session["account_authentication_methods"]:
        method["at"] -= seconds
    session.save()


def signed_in_as(client):
    response = client.get("/api/v1/me/")
    return response.json().get("username") if response.status_code == 200 else None


def set_up_app(client):
    """Turn the authenticator app on, after giving the password once more; the key that the page shows, and the code."""
    show_again(client)
    answer = client.get("/accounts/security/app/")
    assert "no-store" in answer["Cache-Control"]
    page = answer.content.decode()
    key = re.search(r'id="authenticator_secret" value="([A-Z2-7]+)"', page)[1]
    for _ in range(2):  # a code's half minute may end on its way
        code = format_hotp_value(hotp_value(key, next(iter(yield_hotp_counters_from_time()))))
        if client.post("/accounts/security/app/", {"code": code}).status_code == 302:
            break
    return key, code


def test_a_new_person_comes_from_the_provider_and_chooses_a_name(client, lab):
    assert there_and_back(client, LAB, subject="ruth-at-lab")["Location"] == "/accounts/elsewhere/sign-up/"
    assert 'value="ruth"' in client.get("/accounts/elsewhere/sign-up/").content.decode()
    client.post("/accounts/elsewhere/sign-up/", {"username": "ruth-b"})
    assert signed_in_as(client) == "ruth-b"
    client.post("/accounts/sign-out/")
    there_and_back(client, LAB, subject="ruth-at-lab")
    assert signed_in_as(client) == "ruth-b"
    new = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert b"old_password" not in client.get("/accounts/password/").content
    person = User.objects.get(username="ruth-b")
    assert (person.email, person.has_usable_password(), person.emailaddress_set.count()) == ("", False, 0)
    assert SocialAccount.objects.get().extra_data == {"name": "ruth"}
    client.post("/accounts/password/", new)
    assert User.objects.get(username="ruth-b").check_password(PASSWORD)


def test_names_from_a_provider_obey_the_rules_of_all_names(client, lab, alice):
    there_and_back(client, LAB, subject="ruth-at-lab")
    for name in ("admin", "..", "ALICE", "a1ice", "x" * 41):
        page = client.post("/accounts/elsewhere/sign-up/", {"username": name})
        assert page.status_code == 200, name
    assert User.objects.count() == 1


def test_the_address_of_somebody_else_at_a_provider_opens_nothing(client, lab, alice):
    alice.email = "alice@example.org"
    alice.save(update_fields=["email"])
    alice.emailaddress_set.create(email="alice@example.org", verified=True, primary=True)
    there_and_back(client, LAB, subject="ruth-at-lab")
    assert signed_in_as(client) is None
    client.post("/accounts/elsewhere/sign-up/", {"username": "ruth"})
    assert signed_in_as(client) == "ruth"
    assert not alice.socialaccount_set.exists()


def test_an_account_elsewhere_is_added_and_never_taken_from_another(client, lab, alice, bob):
    sign_in(client)
    show_again(client)
    there_and_back(client, f"{LAB}?process=connect", subject="ruth-at-lab")
    assert alice.socialaccount_set.get().uid == "ruth-at-lab"
    client.post("/accounts/sign-out/")
    sign_in(client, username="bob")
    show_again(client)
    there_and_back(client, f"{LAB}?process=connect", subject="ruth-at-lab")
    assert not bob.socialaccount_set.exists()
    assert alice.socialaccount_set.exists()


def test_a_session_that_was_left_open_gets_no_account_elsewhere(client, lab, alice):
    sign_in(client)
    assert client.post(f"{LAB}?process=connect")["Location"].startswith("/accounts/again/")
    show_again(client)
    going = f"{LAB}?process=connect"
    # Whoever shows who they are only after they came back adds nothing: a stranger may have gone there.
    came_back = there_and_back(client, going, subject="ruth-at-lab", before_back=lambda: grow_old(client))
    assert came_back["Location"].startswith("/accounts/again/")
    show_again(client)
    assert not alice.socialaccount_set.exists()


def test_whoever_turns_back_at_the_provider_is_not_signed_in(client, lab):
    answer = there_and_back(client, LAB, subject="ruth-at-lab", action="deny")
    assert signed_in_as(client) is None
    page = client.get(answer["Location"]) if answer.status_code == 302 else answer
    assert b'href="/accounts/sign-in/"' in page.content


def test_an_answer_that_nobody_asked_for_is_refused(client, lab):
    answer = client.get(f"{LAB}back/?code=guessed&state=guessed")
    assert (answer.status_code, signed_in_as(client)) == (401, None)


def test_signing_in_elsewhere_never_leads_to_a_third_site(client, lab, alice):
    sign_in(client)
    show_again(client)
    there_and_back(client, f"{LAB}?process=connect", subject="ruth-at-lab")
    client.post("/accounts/sign-out/")
    answer = there_and_back(client, f"{LAB}?next=https://evil.example/", subject="ruth-at-lab")
    assert answer["Location"] == "/submissions/"


def test_a_provider_that_does_not_answer_is_said_so(client, settings):
    app = {"provider_id": "lab", "name": "Lab", "client_id": "site", "secret": "secret"}
    app["settings"] = {"server_url": "http://127.0.0.1:9/"}
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    answer = client.post(LAB)
    assert answer.status_code == 502
    assert b"does not respond" in answer.content


def test_only_configured_providers_have_a_button(client, lab, settings):
    page = client.get("/accounts/sign-in/").content.decode()
    assert "Sign in with The Lab" in page
    assert "GitHub" not in page
    settings.SOCIALACCOUNT_PROVIDERS = {}
    assert "Sign in with The Lab" not in client.get("/accounts/sign-in/").content.decode()
    assert client.post("/accounts/github/").status_code == 404


def test_after_the_password_the_app_is_asked_and_a_wrong_code_opens_nothing(client, alice):
    client.post("/accounts/sign-in/", {"username": "alice", "password": PASSWORD})
    key, _ = set_up_app(client)
    assert key not in str(Authenticator.objects.get(type="totp").data)  # stored encrypted
    client.post("/accounts/sign-out/")
    asked = client.post("/accounts/sign-in/", {"username": "alice", "password": PASSWORD, "next": "/nodes/"})
    assert (asked["Location"], signed_in_as(client)) == ("/accounts/sign-in/code/", None)
    client.post("/accounts/sign-in/code/", {"code": "000000"})
    assert signed_in_as(client) is None
    used = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()[0]
    assert client.post("/accounts/sign-in/code/", {"code": used})["Location"] == "/nodes/"
    assert signed_in_as(client) == "alice"


def test_a_recovery_code_works_once(client, alice):
    client.post("/accounts/sign-in/", {"username": "alice", "password": PASSWORD})
    set_up_app(client)
    code = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()[0]
    for expected in ("alice", None):
        client.post("/accounts/sign-out/")
        client.post("/accounts/sign-in/", {"username": "alice", "password": PASSWORD})
        client.post("/accounts/sign-in/code/", {"code": code})
        assert signed_in_as(client) == expected


def test_the_second_factor_is_asked_of_who_comes_from_a_provider_as_well(client, lab, alice):
    sign_in(client)
    show_again(client)
    there_and_back(client, f"{LAB}?process=connect", subject="ruth-at-lab")
    set_up_app(client)
    client.post("/accounts/sign-out/")
    assert there_and_back(client, LAB, subject="ruth-at-lab")["Location"] == "/accounts/sign-in/code/"
    assert signed_in_as(client) is None


def test_codes_cannot_be_guessed_for_long(client, alice):
    client.post("/accounts/sign-in/", {"username": "alice", "password": PASSWORD})
    set_up_app(client)
    client.post("/accounts/sign-out/")
    client.post("/accounts/sign-in/", {"username": "alice", "password": PASSWORD})
    answers = [
        client.post("/accounts/sign-in/code/", {"code": "000000"}, REMOTE_ADDR=f"192.0.2.{n}").status_code
        for n in range(22)
    ]
    assert answers[-1] == 429


@pytest.mark.parametrize("address", ["sign-in/", "sign-up/", "password/", "again/"])
def test_a_form_takes_a_password_at_its_own_address_wherever_it_is_shown(client, alice, address):
    if address in ("password/", "again/"):
        sign_in(client)
    page = client.get(f"/accounts/{address}").content.decode()
    forms = [form for form in re.findall(r"<form.*?</form>", page, re.DOTALL) if 'type="password"' in form]
    assert [re.search(r'action="([^"]*)"', form)[1] for form in forms] == [f"/accounts/{address}"]


def test_signing_in_gives_a_new_session(client, alice):
    client.get("/accounts/sign-in/")
    client.cookies["sessionid"] = "chosen-by-somebody-else"
    client.post("/accounts/sign-in/", {"username": "alice", "password": PASSWORD})
    assert client.cookies["sessionid"].value != "chosen-by-somebody-else"
    assert signed_in_as(client) == "alice"


@pytest.mark.parametrize("start", ["/accounts/sign-in/", "/accounts/sign-up/"])
@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
def test_no_page_leads_on_to_another_site(client, alice, start, wanted):
    sent = {"username": "alice", "password": PASSWORD, "next": wanted}
    if "up" in start:
        sent = {"username": "ruth", "password": PASSWORD, "repeated": PASSWORD, "next": wanted}
    assert client.post(start, sent)["Location"] in ("/submissions/", "/problems/")


def test_an_operator_without_a_second_factor_is_led_to_set_one_up(client, operator, settings):
    settings.OPERATORS_NEED_SECOND_FACTOR = True
    client.post("/accounts/sign-in/", {"username": "operator", "password": PASSWORD})
    assert client.get("/admin/", follow=True).redirect_chain[-1][0] == "/accounts/security/"
    set_up_app(client)
    assert client.get("/admin/").status_code == 200


def test_what_an_unproven_operator_saves_keeps_their_rights(operator, settings):
    settings.OPERATORS_NEED_SECOND_FACTOR = True
    from portal.accounts.operators import AccountBackend

    seen = AccountBackend().get_user(operator.pk)
    assert (seen.is_staff, seen.lacks_second_factor) == (False, True)
    seen.set_password("another long pass phrase")
    seen.save()
    operator.refresh_from_db()
    assert operator.is_staff
    assert operator.check_password("another long pass phrase")


def test_the_token_of_an_unproven_operator_has_no_operators_rights(operator, settings):
    settings.OPERATORS_NEED_SECOND_FACTOR = True
    _, secret = actions.create_token(operator, name="laptop", scopes=["read"], lifetime_days=1)
    assert not actions.authenticate(secret).user.is_staff


@pytest.fixture
def mails(settings):
    """A mail server, configured as PKB_EMAIL_URL does it; the mails that reached it."""
    with mail_server() as (port, kept):
        settings.EMAIL_URL = f"smtp://127.0.0.1:{port}"
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        settings.ACCOUNT_EMAIL_VERIFICATION = "optional"
        yield kept


def link_in(mail):
    return re.search(rf"{settings.SITE_URL}(/\S+)", mail.get_content())[1]


def test_a_password_is_forgotten_and_made_anew_by_mail(client, alice, mails):
    client.post("/accounts/sign-in/", {"username": "alice", "password": PASSWORD})
    client.post("/accounts/again/", {"password": PASSWORD})
    answer = client.post("/accounts/email/", {"action_add": "", "email": "alice@example.org"})
    assert answer.status_code == 302, answer.content
    client.post(link_in(mails[-1]))
    assert alice.emailaddress_set.get().verified
    client.post("/accounts/sign-out/")
    client.post("/accounts/password/reset/", {"email": "alice@example.org"})
    assert mails[-1]["To"] == "alice@example.org"
    form = client.get(link_in(mails[-1]), follow=True)
    new = "an entirely new phrase"
    client.post(form.redirect_chain[-1][0], {"password1": new, "password2": new})
    alice.refresh_from_db()
    assert alice.check_password(new)
    # This device is known now, and strangers who guess passwords do not lock alice out on it.
    for number in range(throttle.ACCOUNT.failures):
        Client(REMOTE_ADDR=f"192.0.2.{number}").post("/accounts/sign-in/", {"username": "alice", "password": "wrong"})
    elsewhere = Client().post("/accounts/sign-in/", {"username": "alice", "password": new})
    assert elsewhere.status_code == 429
    assert b"a new password by mail" in elsewhere.content
    assert client.post("/accounts/sign-in/", {"username": "alice", "password": new}).status_code == 302
    client.post("/accounts/sign-out/")
    assert b"has expired or was used" in client.get(link_in(mails[-1]), follow=True).content


def test_no_link_to_a_new_password_goes_to_an_address_that_is_not_confirmed(client, alice, mails):
    alice.email = "typed-in-the-admin@example.org"
    alice.save(update_fields=["email"])
    alice.emailaddress_set.create(email="mallory@example.org", verified=False)
    for address in ("mallory@example.org", "typed-in-the-admin@example.org"):
        client.post("/accounts/password/reset/", {"email": address})
    assert mails == []


def test_links_in_mails_lead_to_this_site_whatever_host_was_asked(client, alice, mails):
    alice.emailaddress_set.create(email="alice@example.org", verified=True, primary=True)
    client.post("/accounts/password/reset/", {"email": "alice@example.org"}, headers={"Host": "LOCALHOST:9999"})
    sign_in(client)
    show_again(client)
    adding = {"action_add": "", "email": "second@example.org"}
    client.post("/accounts/email/", adding, headers={"Host": "[::1]:1"})
    assert len(mails) == 2
    for mail in mails:
        assert re.findall(r"https?://[^/\s]+", mail.get_content()) == [settings.SITE_URL]


WAYS_IN = {
    "/accounts/": {"name": "laptop", "scopes": ["read"], "lifetime_days": 365},
    "/accounts/data/": {},
    "/accounts/email/": {"action_add": "", "email": "mallory@example.org"},
    "/accounts/elsewhere/": {"account": 1},
    "/accounts/security/codes/new/": {},
    "/accounts/delete/": {"entries": "keep", "username": "alice"},
}


@pytest.mark.parametrize("address", WAYS_IN)
def test_a_session_that_was_left_open_is_no_way_in_for_good(client, alice, mails, address):
    alice.socialaccount_set.create(pk=1, provider="lab", uid="alice-at-lab")
    sign_in(client)
    set_up_app(client)
    grow_old(client)
    answer = client.post(address, WAYS_IN[address])
    # Who has a second factor shows that, not the password.
    assert answer["Location"].startswith("/accounts/again/code/")
    assert client.get("/accounts/again/")["Location"].startswith("/accounts/again/code/")
    assert not alice.tokens.exists()
    assert not alice.emailaddress_set.exists()
    alice.refresh_from_db()
    assert alice.left_at is None


def test_a_token_is_made_once_its_owner_has_shown_who_they_are(client, alice):
    sign_in(client)
    asked = client.post("/accounts/", WAYS_IN["/accounts/"])["Location"]
    assert b"pkb_" in client.post(asked, {"password": PASSWORD, "next": "/accounts/"}).content
    assert alice.tokens.get().name == "laptop"


def test_a_form_that_a_stranger_left_is_not_sent_by_the_owners_password(client, alice):
    sign_in(client)
    client.post("/accounts/delete/", WAYS_IN["/accounts/delete/"])
    asked = client.get("/accounts/delete/")["Location"]
    assert client.post(asked, {"password": PASSWORD, "next": "/accounts/delete/"})["Location"] == "/accounts/delete/"
    alice.refresh_from_db()
    assert alice.left_at is None


def test_the_code_that_turned_the_app_on_does_not_sign_in(client, alice):
    sign_in(client)
    _, code = set_up_app(client)
    client.post("/accounts/sign-out/")
    assert sign_in(client)["Location"] == "/accounts/sign-in/code/"
    client.post("/accounts/sign-in/code/", {"code": code})
    assert signed_in_as(client) is None


def test_the_old_password_cannot_be_guessed_by_who_has_a_session(client, alice):
    sign_in(client)
    sent = {"old_password": "wrong", "new_password1": PASSWORD + "2", "new_password2": PASSWORD + "2"}
    answers = [client.post("/accounts/password/", sent).status_code for _ in range(throttle.CODES.failures + 1)]
    assert answers == [200] * throttle.CODES.failures + [429]


def test_nobody_learns_from_the_form_which_addresses_have_accounts(client, alice, mails):
    alice.emailaddress_set.create(email="alice@example.org", verified=True, primary=True)
    known = client.post("/accounts/password/reset/", {"email": "alice@example.org"})
    sent = len(mails)
    unknown = client.post("/accounts/password/reset/", {"email": "nobody@example.org"})
    assert (known.status_code, known["Location"]) == (unknown.status_code, unknown["Location"])
    assert (sent, len(mails)) == (1, 1)


def test_without_mail_there_is_no_form_that_promises_one(client, db):
    assert b"sends no mail" in client.get("/accounts/password/reset/").content
    assert b"Forgot your password" not in client.get("/accounts/sign-in/").content


def test_mails_cannot_be_asked_for_without_end(client, mails):
    answers = [client.post("/accounts/password/reset/", {"email": f"{n}@example.org"}).status_code for n in range(12)]
    assert answers[-1] == 429


def sign_up(client, name, **more):
    return client.post("/accounts/sign-up/", {"username": name, "password": PASSWORD, "repeated": PASSWORD, **more})


def test_a_closed_site_takes_nobody(client, lab, settings):
    settings.SIGN_UP = "closed"
    assert client.get("/accounts/sign-up/").status_code == 403
    assert sign_up(client, "jane").status_code == 403
    assert b"No new accounts" in there_and_back(client, LAB, subject="ruth-at-lab").content
    with pytest.raises(Refusal):
        actions.sign_up(username="jane", password=PASSWORD)
    assert not User.objects.exists()


def test_providers_and_mail_are_configured_from_the_environment():
    said = {
        "PKB_OIDC": "lab",
        "PKB_OIDC_LAB_URL": "https://id.example.org",
        "PKB_OIDC_LAB_CLIENT_ID": "site",
        "PKB_OIDC_LAB_CLIENT_SECRET": "secret",
        "PKB_OIDC_LAB_NAME": "Example Lab",
        "PKB_GITHUB_CLIENT_ID": "id",
        "PKB_GITHUB_CLIENT_SECRET": "secret",
        "PKB_EMAIL_URL": "smtp+tls://user:password@mail.example.org:587",
    }
    program = (
        "import json; from portal import settings as s;"
        "print(json.dumps([s.SOCIALACCOUNT_PROVIDERS, s.EMAIL_HOST, s.EMAIL_PORT, s.EMAIL_USE_TLS]))"
    )
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | said, capture_output=True, check=True)
    providers, *mail = json.loads(done.stdout)
    assert sorted(providers) == ["github", "openid_connect"]
    assert [app["name"] for app in providers["openid_connect"]["APPS"]] == ["Example Lab"]
    assert mail == ["mail.example.org", 587, True]
