"""The headers that browsers get with a page, and the pages that an operator answers for."""

import json
import os
import subprocess
import sys

import pytest
from django.core.cache import caches
from django.test import Client

from portal.accounts import throttle
from portal.accounts.models import User
from tests.portal.pages import scenes

pytestmark = pytest.mark.django_db
PRODUCTION = {
    "PKB_EMBEDDED": "false",
    "PKB_SECRET_KEY": "k" * 60,
    "PKB_DATABASE_URL": "sqlite://:memory:",
    "PKB_ALLOWED_HOSTS": "pkb.example.org",
    "PKB_SITE_URL": "https://pkb.example.org",
}


@pytest.mark.parametrize(
    "address", ["/", "/accounts/sign-in/", "/api/v1/problems/", "/nowhere/", "/feeds/records.atom"]
)
def test_every_answer_carries_the_headers(client, address):
    answer = client.get(address)
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer["X-Frame-Options"] == "DENY"
    assert "camera=()" in answer["Permissions-Policy"]
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert "form-action 'self'" in answer["Content-Security-Policy"]


def test_strict_transport_is_said_over_tls(settings):
    settings.SECURE_HSTS_SECONDS = 31_536_000
    assert Client().get("/", secure=True)["Strict-Transport-Security"].startswith("max-age=31536000")


def test_cookies_are_for_us_alone(client, alice):
    client.post("/accounts/sign-in/", {"username": "alice", "password": scenes.PASSWORD})
    client.get("/accounts/password/")
    for name in ("sessionid", "csrftoken"):
        assert client.cookies[name]["httponly"]
        assert client.cookies[name]["samesite"] == "Lax"


def test_a_production_site_sends_cookies_over_tls_alone_and_wants_a_second_factor_of_operators():
    names = [
        *("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_SSL_REDIRECT", "SECURE_HSTS_SECONDS"),
        *("OPERATORS_NEED_SECOND_FACTOR", "DEBUG", "WEBHOOKS_TO_PRIVATE_ADDRESSES", "ACCEPT_WEAK_SANDBOX"),
    ]
    program = f"import json; from portal import settings; print(json.dumps([getattr(settings, n) for n in {names}]))"
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "DJANGO_"))}
    done = subprocess.run([sys.executable, "-c", program], env=plain | PRODUCTION, capture_output=True, check=True)
    assert json.loads(done.stdout) == [True, True, True, 31_536_000, True, False, False, False]


def test_every_form_of_accounts_wants_its_token(alice):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    for address in ("sign-up/", "sign-in/", "sign-out/", "password/", "", "delete/", "data/", "elsewhere/", "again/"):
        assert browser.post(f"/accounts/{address}").status_code == 403, address


def test_sign_ups_from_one_address_are_counted(client, monkeypatch, settings):
    caches["attempts"].clear()
    settings.SIGN_UP = "closed"
    sent = {"username": "dora", "password": scenes.PASSWORD, "repeated": scenes.PASSWORD}
    answers = {client.post("/accounts/sign-up/", sent).status_code for _ in range(throttle.SIGN_UPS.failures)}
    assert answers == {403}
    refused = client.post("/accounts/sign-up/", sent)
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= throttle.SIGN_UPS.window_s
    assert not User.objects.exists()


def test_privacy_and_terms_are_what_the_operator_wrote(client, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    assert "What is kept" in client.get("/privacy/").content.decode()
    assert "GPU time is free and may end" in client.get("/terms/").content.decode()
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/privacy.md").write_text("## Ours\n<script>alert(1)</script>")
    page = client.get("/privacy/").content.decode()
    assert "Ours</h2>" in page
    assert "<script>alert" not in page
    for address in ("/privacy/", "/terms/"):
        assert f'href="{address}"' in client.get("/").content.decode()


def test_security_txt_names_whom_to_write_to(client, settings):
    assert client.get("/.well-known/security.txt").status_code == 404
    settings.SECURITY_CONTACT = "mailto:security@example.org"
    answer = client.get("/.well-known/security.txt")
    assert answer["Content-Type"].startswith("text/plain")
    lines = dict(line.split(": ", 1) for line in answer.content.decode().splitlines())
    assert lines["Contact"] == "mailto:security@example.org"
    assert lines["Expires"].endswith("T00:00:00Z")


def test_a_request_under_a_foreign_name_is_refused_and_no_failure_of_ours(client):
    answer = client.get("/readyz", headers={"Host": "evil.example"})

    assert answer.status_code == 400
    assert "This site does not answer to the name in the request." in answer.text
    assert "evil.example" not in answer.text
