"""How a page is looked at: its width against the screen, axe's verdict, and a picture kept."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import save_screenshot

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
# axe looks in each scheme and in a wide and a narrow window, not in every combination: it takes a while.
LOOKS_FOR_AXE = ("1280-light", "360-dark")
# A wide and a narrow window and both schemes are looked at in `make test`; the other combinations in `make gate`.
LOOKS = [
    (1280, "light"),
    (360, "dark"),
    pytest.param(1280, "dark", marks=pytest.mark.slow),
    pytest.param(360, "light", marks=pytest.mark.slow),
    pytest.param(2560, "light", marks=pytest.mark.slow),
]
# Where the pages are many and the house's parts the same: one look in `make test`, with axe.
ONE_LOOK = [pytest.param(1280, "light", marks=pytest.mark.slow), *LOOKS[1:]]


def problems_of(page: Page, address: str, *, picture: str) -> list[str]:
    """What is wrong with the look of a page; its picture is kept under the name `picture`."""
    page.goto(address)
    return problems_here(page, picture=picture)


def problems_here(page: Page, *, picture: str) -> list[str]:
    """The same for what the page shows already, such as the answer to a form."""
    page.wait_for_load_state("networkidle")
    save_screenshot(page, picture)
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    found = [f"{picture}: wider than the screen by {overflow} px"] if overflow > 0 else []
    if not picture.endswith(LOOKS_FOR_AXE):
        return found
    return found + [f"{picture}: {violation}" for violation in _accessibility(page)]


def _accessibility(page: Page) -> list[str]:
    page.evaluate(AXE)
    result: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']} ({violation['impact']}): {violation['help']} at {violation['nodes'][0]['target']}"
        for violation in result["violations"]
    ]
