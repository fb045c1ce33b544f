"""Passkeys and authenticator apps as somebody with a browser has them: Chromium's virtual authenticator."""

import re

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from playwright.sync_api import CDPSession, Page

from tests.browser.conftest import PASSWORD, Visit, sign_up

pytestmark = pytest.mark.browser


def passkeys(page: Page) -> CDPSession:
    """Give the browser a place for passkeys, whose owner always agrees."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    options |= {"isUserVerified": True, "automaticPresenceSimulation": True}
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session


def show_again_who_you_are(page: Page) -> None:
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Confirm").click()


def sign_out(page: Page) -> None:
    page.goto("/accounts/")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Sign in").wait_for()


def test_a_passkey_signs_in_without_a_password(visit: Visit, site_url: str) -> None:
    page = visit().page
    # A passkey belongs to a name; an address of digits has none.
    page.goto(site_url.replace("127.0.0.1", "localhost") + "/accounts/sign-up/")
    name = sign_up(page, "passkey", address=page.url)
    passkeys(page)
    page.goto(page.url.split("/problems/")[0] + "/accounts/security/passkeys/new/")
    show_again_who_you_are(page)
    assert page.get_by_label("Sign in without a password").is_checked()
    page.get_by_role("button", name="Add the passkey").click()
    page.get_by_role("heading", name="Recovery codes").wait_for()
    page.goto(page.url.split("/accounts/")[0] + "/accounts/")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Sign in").first.click()
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.get_by_role("link", name=name).wait_for()


def test_an_authenticator_app_is_asked_after_the_password(visit: Visit) -> None:
    page = visit(width=390).page
    name = sign_up(page, "app")
    page.goto("/accounts/security/app/")
    show_again_who_you_are(page)
    key = page.get_by_label("Key").input_value()
    for _ in range(2):  # a code's half minute may end on its way
        page.get_by_label("Authenticator code").fill(code_of(page, key))
        with page.expect_navigation():
            page.get_by_role("button", name="Turn on the app").click()
        if page.locator("#codes").count():
            break
    codes = page.locator("#codes").inner_text().split()
    assert len(codes) == 10
    sign_out(page)
    page.goto("/accounts/sign-in/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("heading", name="Second factor").wait_for()
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("main").get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name=re.compile(name[:10])).wait_for()


def code_of(page: Page, key: str) -> str:
    """What an app with this key shows now, by the browser's clock."""
    seconds = page.evaluate("Math.floor(Date.now() / 1000)")
    return format_hotp_value(hotp_value(key, seconds // 30))
