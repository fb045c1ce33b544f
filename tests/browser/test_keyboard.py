"""The main path without a mouse: every stop is visible, the order leads on, and nothing holds the focus."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, sign_up
from tests.browser.test_journey import wait_for_verdict

MOST_STOPS = 60
# What a person sees of the element in focus: a ring of its own, or one around the editor that holds it.
# Seen a moment later: a change of style takes a frame.
STOP = """async () => {
  await new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)));
  const focused = document.activeElement;
  const shown = focused.closest(".editor-box") ?? focused;
  const { top, bottom, width } = focused.getBoundingClientRect();
  const { outlineStyle, boxShadow } = getComputedStyle(shown);
  return {
    place: `${focused.tagName} from ${top} to ${bottom} px, outline ${outlineStyle}, shadow ${boxShadow}`,
    name: (focused.getAttribute("aria-label") ?? focused.innerText ?? "").trim(),
    visible: width > 0 && bottom > 0 && top < innerHeight && (outlineStyle !== "none" || boxShadow !== "none"),
  };
}"""


def _tab_to(page: Page, name: str) -> None:
    """Press Tab until the element of that name has the focus; every stop on the way must be visible."""
    stops = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        stops.append(stop["name"])
        assert stop["visible"], f"nobody sees that {stop['name']!r} has the focus: {stop['place']}"
        if stop["name"] == name:
            return
    raise AssertionError(f"{name!r} is not among the first {MOST_STOPS} stops: {stops}")


def _skip_to_content(page: Page) -> None:
    """Leave the header by the first link of the page."""
    _tab_to(page, "Skip to the content")
    page.keyboard.press("Enter")
    expect(page.locator("main:focus")).to_have_count(1)


def _follow(page: Page, name: str, address: str) -> None:
    _tab_to(page, name)
    page.keyboard.press("Enter")
    page.wait_for_url(address)


def test_from_the_home_page_over_a_submission_to_the_rooflines_by_keyboard(visit: Visit) -> None:
    page = visit().page
    sign_up(page, "kira")
    page.goto("/")
    _skip_to_content(page)
    _follow(page, "Choose a problem", "**/problems/**")
    _skip_to_content(page)
    _follow(page, "All-reduce (sum) of one matrix", "**/problems/allreduce/**")
    _skip_to_content(page)
    _follow(page, "Submit a solution", "**/submit/**")

    page.locator(".cm-content").wait_for()
    _skip_to_content(page)
    _tab_to(page, "Source of solution.py")
    page.keyboard.press("Escape")
    _tab_to(page, "Submit")
    page.keyboard.press("Enter")
    wait_for_verdict(page, "Passed")
    link = page.locator("#verdict").get_by_role("link", name=re.compile("^Submission"))
    _follow(page, link.inner_text(), "**/submissions/*-*/**")

    page.reload()
    _skip_to_content(page)
    _follow(page, "All-reduce (sum) of one matrix", "**/problems/allreduce/**")
    _skip_to_content(page)
    _follow(page, "Leaderboard", "**/leaderboard/**")
    _follow(page, "Roofline", "**/roofline/**")
    _skip_to_content(page)
    expect(page.get_by_role("heading", name="Roofline", exact=True)).to_be_visible()
    _tab_to(page, "Link to this view")
    expect(page.get_by_role("link", name="Link to this view")).to_be_focused()


def test_arrows_go_through_a_list_and_its_button_asks_for_the_page(visit: Visit) -> None:
    page = visit().page
    page.goto("/roofline/")
    page.wait_for_load_state("networkidle")
    page.get_by_label("Block", exact=True).focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.id") == "block"
    _follow(page, "Apply", re.compile(r"/roofline/\?.*block="))
