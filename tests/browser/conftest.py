"""Chromium and a real installation for the browser tests.

The site is what `make run` starts, with a data folder of its own: web server, dispatcher and a node. Every page
that a visitor opens is watched: a Content-Security-Policy report, an uncaught script error or a failed request fails
the test that caused it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Response,
    StorageState,
    expect,
    sync_playwright,
)

from tests.servers import free_ports

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "var" / "screenshots"
START_SECONDS = 150
PATIENCE_MS = 60_000
"""For an act or what it leads to, on a machine that is busy."""

PASSWORD = "a long pass phrase"
expect.set_options(timeout=PATIENCE_MS)
FLAGS = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  const place = `${event.sourceFile}:${event.lineNumber}`;
  window.reportViolation(`${event.violatedDirective} refused ${event.blockedURI} at ${place} ${event.sample}`);
});
"""


@dataclass(frozen=True)
class Installation:
    """A running site: its address and the folder of its data."""

    url: str
    data_dir: Path


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """A running installation, ended as by Ctrl-C at the end of the session.

    PKB_TEST_SITE names one that runs already, for a developer who tries again and again; its data are in PKB_DATA_DIR,
    or in `var` as those of `make run`.
    """
    if "PKB_TEST_SITE" in os.environ:
        yield Installation(os.environ["PKB_TEST_SITE"], Path(os.environ.get("PKB_DATA_DIR", ROOT / "var")))
        return
    data_dir = tempfile.mkdtemp(prefix="pkb-browser-")
    (port,) = free_ports(1)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "DJANGO_"))}
    environment |= {"PKB_DATA_DIR": data_dir, "HOST": "127.0.0.1", "PORT": str(port)}
    command = [sys.executable, str(ROOT / "deploy" / "serve.py")]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as site:
        said = _collect(site)
        try:
            _wait_for("  ParallelKernelBench is at", said, site)
            yield Installation(f"http://127.0.0.1:{port}", Path(data_dir))
        finally:
            site.send_signal(signal.SIGINT)
            try:
                site.wait(60)
            finally:
                site.kill()
    shutil.rmtree(data_dir)
    assert site.returncode == 0


@pytest.fixture(scope="session")
def site_url(installation: Installation) -> str:
    """The address of the running installation."""
    return installation.url


def _collect(site: subprocess.Popen[str]) -> list[str]:
    """The lines that the installation says, growing while it runs."""
    said: list[str] = []
    assert site.stdout is not None
    threading.Thread(target=said.extend, args=(site.stdout,), daemon=True).start()
    return said


def _wait_for(start: str, said: list[str], site: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not any(line.startswith(start) for line in said):
        assert site.poll() is None, "the installation did not start:\n" + "".join(said)
        assert time.monotonic() < deadline, "the installation is not ready:\n" + "".join(said)
        time.sleep(0.1)


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Playwright's driver. While it runs, this thread has an event loop, in which Django refuses its database."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium."""
    program = shutil.which("chromium")
    assert program, "Chromium is not installed; `make test` installs it where it may (Debian, as root)"
    # Chromium refuses its own sandbox as root.
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS
    browser = playwright.chromium.launch(executable_path=program, args=flags)
    yield browser
    browser.close()


@dataclass
class Watch:
    """What went wrong on a visitor's pages."""

    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def attach(self, context: BrowserContext) -> None:
        """Listen on every page of the context, present and future."""
        context.expose_function("reportViolation", self._violation)
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.errors.append(f"uncaught: {error.error}"))
        context.on("response", self._response)

    def _violation(self, text: str) -> None:
        self.violations.append(text)

    def _console(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "Content-Security-Policy" in message.text:
            self.violations.append(message.text)
        elif message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(f"console: {message.text}")

    def _response(self, response: Response) -> None:
        is_part = response.request.resource_type in ("script", "stylesheet", "image", "font")
        if response.status >= 500 or (is_part and response.status >= 400):
            self.errors.append(f"{response.status} at {response.url}")

    def assert_clean(self) -> None:
        """Fail when anything was reported."""
        assert self.violations == []
        assert self.errors == []


@dataclass
class Visitor:
    """One browser profile on the site."""

    context: BrowserContext
    page: Page
    watch: Watch


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(chromium: Browser, site_url: str) -> Iterator[Visit]:
    """Makes visitors; at the end none of them may have met a policy report or an error."""
    visitors: list[Visitor] = []

    def make(
        *,
        width: int = 1280,
        scheme: Literal["light", "dark"] = "light",
        state: StorageState | None = None,
        scripts: bool = True,
    ) -> Visitor:
        context = chromium.new_context(
            base_url=site_url,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
            storage_state=state,
            java_script_enabled=scripts,
        )
        context.set_default_timeout(PATIENCE_MS)
        watch = Watch()
        watch.attach(context)
        visitors.append(Visitor(context, context.new_page(), watch))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.context.close()
    for visitor in visitors:
        visitor.watch.assert_clean()


def sign_up(page: Page, first_name: str, *, address: str = "/accounts/sign-up/") -> str:
    """Make an account with a name that nobody has and be signed in with it; returns the name."""
    name = f"{first_name}-{uuid.uuid4().hex[:6]}"
    page.goto(address)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again", exact=True).fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Create the account").click()
    page.get_by_role("link", name=name).wait_for()
    return name


def save_screenshot(page: Page, name: str) -> None:
    """Keep the whole page as a picture under var/screenshots."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{re.sub(r'[^a-z0-9-]+', '-', name.lower())}.png", full_page=True)
