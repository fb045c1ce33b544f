"""What people see when there is nothing yet, when something is closed, paused or silent, and when a request fails.

An operator pauses and closes, a node never reports, a receiver of webhooks does not exist: all on the running site.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.conf import settings
from django.template.loader import render_to_string
from django.test import override_settings
from playwright.sync_api import Browser, Page, Route, StorageState, expect

from tests.browser.conftest import PATIENCE_MS, ROOT, Installation, Visit, sign_up
from tests.browser.looks import ONE_LOOK, problems_here, problems_of

# No other browser test submits to these.
CLOSED, PAUSED, SILENT = "reducescatter", "h100x8", "h200x8"
WHY = "A new revision comes on Monday."
WRONG_PASSWORDS = 6
TOLD_SECONDS = 60
PAUSED_WORK = "def solution(tensor):\n    return tensor\n"


@dataclass(frozen=True)
class Newcomer:
    """Somebody whose submissions wait for good, with an organisation whose webhook nobody answers."""

    name: str
    state: StorageState
    paused: str
    silent: str
    organisation: str
    webhook: str

    def pages(self) -> dict[str, tuple[str, ...]]:
        """By name of the picture: the address, and the words that must be there."""
        return {
            "nodes-waiting": ("/nodes/", "paused by the operator", "no node: evaluations wait", "No heartbeat yet"),
            "submission-paused": (self.paused, "The operator has paused judging"),
            "submission-without-node": (self.silent, f"No node is online for {SILENT}"),
            "problem-closed": (f"/problems/{CLOSED}/", "Closed for submissions"),
            "submit-closed": (f"/problems/{CLOSED}/submit/", WHY),
            "organisation": (self.organisation, "GPU time"),
            "webhook": (self.webhook, "Given up"),
        }


EMPTY = {
    "submissions-empty": ("/submissions/", "start from its starter template"),
    "runs-empty": ("/runs/", "No run yet"),
    "organisations-empty": ("/organisations/", "None yet"),
    "search-empty": ("/search/?q=zzzz", "Nothing matches"),
    "problems-none-found": ("/problems/?q=zzzz", "No problem matches"),
}


@pytest.fixture(scope="module")
def newcomer(chromium: Browser, installation: Installation) -> Iterator[Newcomer]:
    """One for the module; nothing here is judged."""
    _register_silent_node(installation)
    context = chromium.new_context(base_url=installation.url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    _operate(page, installation)
    context.clear_cookies()
    name = sign_up(page, "nora")
    paused, silent = (_submit(page, profile) for profile in (PAUSED, SILENT))
    organisation = _make_organisation(page, f"Lab of {name}")
    webhook = _add_webhook(page)
    yield Newcomer(name, context.storage_state(), paused, silent, organisation, webhook)
    context.close()


def _register_silent_node(installation: Installation) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "node_add", "spare"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "DJANGO_"))}
    environment["PKB_DATA_DIR"] = str(installation.data_dir)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 or "spare" in done.stderr, done.stderr


def _operate(page: Page, installation: Installation) -> None:
    """Pause a queue and close a problem, as an operator does."""
    account = dict(line.split(": ", 1) for line in (installation.data_dir / "operator.txt").read_text().splitlines())
    page.goto("/accounts/sign-in/?next=/admin/")
    page.get_by_label("Name").fill(account["name"])
    page.get_by_label("Password", exact=True).fill(account["password"])
    page.get_by_role("main").get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/admin/")
    page.goto(f"/admin/submissions/profilestate/{PAUSED}/change/")
    page.get_by_label("Is paused").check()
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/admin/submissions/profilestate/")
    page.goto("/admin/catalog/problemswitch/add/")
    page.locator("[name=slug]").select_option(CLOSED)
    page.get_by_label("Is open").uncheck()
    page.get_by_label("Note").fill(WHY)
    page.get_by_role("button", name="Save", exact=True).click()
    # Cookies are cleared next: an answer on its way would bring the operator's back.
    page.wait_for_url("**/admin/catalog/problemswitch/")


def _submit(page: Page, profile: str) -> str:
    page.goto("/problems/allreduce/submit/")
    page.get_by_label("Profile", exact=True).select_option(profile)
    file = {"name": "solution.py", "mimeType": "text/x-python", "buffer": f"{PAUSED_WORK}# {profile}\n".encode()}
    page.get_by_label("Upload a file").set_input_files(file)
    page.get_by_role("main").get_by_role("button", name="Submit", exact=True).click()
    page.locator("#verdict").get_by_role("link", name=re.compile("^Submission")).click()
    page.wait_for_url("**/submissions/*-*/")
    return page.url


def _make_organisation(page: Page, name: str) -> str:
    page.goto("/organisations/")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Short name").fill(name.rsplit(" ", maxsplit=1)[-1] + "-lab")
    page.get_by_role("button", name="Create the organisation").click()
    page.get_by_role("heading", name="Webhooks", exact=True).wait_for()
    return page.url


def _add_webhook(page: Page) -> str:
    """Add a webhook whose host does not exist, send it a test and wait until the log says what became of it."""
    address = "https://hooks.invalid/pkb"
    page.get_by_label("Address").fill(address)
    page.get_by_role("button", name="Add the webhook").click()
    expect(page.locator(".secret")).to_be_visible()
    page.get_by_role("link", name=address).click()
    page.get_by_role("button", name="Send a test").click()
    deadline = time.monotonic() + TOLD_SECONDS
    while page.get_by_role("row").filter(has_text="Given up").count() == 0:
        assert time.monotonic() < deadline, "nobody tried to send the test"
        time.sleep(0.2)
        page.reload()
    return page.url


@pytest.mark.parametrize(("width", "scheme"), ONE_LOOK)
def test_empty_and_broken_states_fit_and_are_accessible(
    visit: Visit, newcomer: Newcomer, width: int, scheme: str
) -> None:
    member = visit(width=width, scheme=scheme, state=newcomer.state).page
    fresh = visit(width=width, scheme=scheme).page
    sign_up(fresh, "mina")
    found = []
    for page, pages in ((member, newcomer.pages()), (fresh, EMPTY)):
        for name, (address, *words) in pages.items():
            found += problems_of(page, address, picture=f"{name}-{width}-{scheme}")
            for word in words:
                expect(page.get_by_role("main")).to_contain_text(word)
    assert found == []


@pytest.fixture(scope="module")
def locked(chromium: Browser, site_url: str) -> Iterator[str]:
    """An account that somebody guessed at too often from here."""
    context = chromium.new_context(base_url=site_url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    name = sign_up(page, "lola")
    context.clear_cookies()
    for _ in range(WRONG_PASSWORDS):
        assert _guess(page, name) == 200
    yield name
    context.close()


def _guess(page: Page, name: str) -> int:
    """Try a wrong password; the status of the answer."""
    page.goto("/accounts/sign-in/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill("a wrong pass phrase")
    return _send(page, "Sign in")


def _send(page: Page, button: str) -> int:
    """Send the form and wait for the page that answers; its status."""
    with page.expect_response(lambda response: response.request.method == "POST") as answer:
        page.get_by_role("main").get_by_role("button", name=button, exact=True).click()
    page.wait_for_load_state()
    return answer.value.status


@pytest.mark.parametrize(("width", "scheme"), ONE_LOOK)
def test_refused_requests_are_answered_by_a_page_that_says_what_to_do(
    visit: Visit, newcomer: Newcomer, locked: str, width: int, scheme: str
) -> None:
    page = visit(width=width, scheme=scheme, state=newcomer.state).page
    look = f"{width}-{scheme}"

    page.goto("/problems/allreduce/submit/")
    page.get_by_label("Note (").evaluate("(note) => { note.value = 'x'.repeat(5000000); }")
    assert _send(page, "Submit") == 413
    expect(page.get_by_role("main")).to_contain_text("at most 512 KB")
    found = problems_here(page, picture=f"too-large-{look}")

    page.goto("/problems/allreduce/submit/")
    large = {"name": "solution.py", "mimeType": "text/x-python", "buffer": b"#" * 600_000}
    page.get_by_label("Upload a file").set_input_files(large)
    assert _send(page, "Submit") == 413
    expect(page.locator("#verdict").get_by_role("alert")).to_contain_text("512 KB")
    found += problems_here(page, picture=f"file-too-large-{look}")

    anybody = visit(width=width, scheme=scheme).page
    anybody.goto("/accounts/sign-in/")
    anybody.get_by_label("Name").fill(locked)
    anybody.get_by_label("Password", exact=True).fill("a wrong pass phrase")
    anybody.context.clear_cookies()
    assert _send(anybody, "Sign in") == 403
    expect(anybody.get_by_role("heading", level=1)).to_have_text("The form has expired")
    found += problems_here(anybody, picture=f"form-expired-{look}")

    assert _guess(anybody, locked) == 429
    expect(anybody.get_by_role("alert")).to_contain_text("Try again in about")
    found += problems_here(anybody, picture=f"too-many-passwords-{look}")

    anybody.goto("/submissions/no-such/")
    expect(anybody.get_by_role("heading", level=1)).to_have_text("Not found")
    assert found == []


@pytest.mark.parametrize(("status", "words"), [(500, "The fault is ours"), (503, "database does not respond")])
@pytest.mark.parametrize(("width", "scheme"), ONE_LOOK)
def test_the_page_of_a_failure_of_ours_fits_and_is_accessible(
    visit: Visit, width: int, scheme: str, status: int, words: str
) -> None:
    page = visit(width=width, scheme=scheme).page
    # Nothing on the site fails on demand: its page is put in the place of another one. Its static files go by their
    # plain names, because only the site's own process knows the hashed ones; the site answers both.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    with override_settings(STORAGES={**settings.STORAGES, "staticfiles": plain}):
        context = {"title": "Something failed on our side", "retry_after_s": 10, "address": "/docs/"}
        failed = render_to_string(f"errors/{status}.html", context)
    page.route("**/docs/", lambda route: _answer(route, failed))
    assert problems_of(page, "/docs/", picture=f"failure-{status}-{width}-{scheme}") == []
    expect(page.get_by_role("main")).to_contain_text(words)


def _answer(route: Route, html: str) -> None:
    route.fulfill(body=html, content_type="text/html")
