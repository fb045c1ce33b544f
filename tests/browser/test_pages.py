"""Every page, in both widths and both colour schemes: fits, is accessible, breaks no policy; pictures are kept."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.browser.conftest import PATIENCE_MS, Visit, sign_up
from tests.browser.looks import LOOKS, problems_of
from tests.browser.test_journey import RIGHT, WRONG_ON_RANK_1, submit, wait_for_verdict


@dataclass(frozen=True)
class Story:
    """Somebody with an account, a right submission and a wrong one, both judged."""

    name: str
    state: StorageState
    passed: str
    wrong: str

    def pages(self) -> dict[str, str]:
        """Address by name of the picture."""
        return {
            "home": "/",
            "problems": "/problems/",
            "problem": "/problems/gemm_allreduce/",
            "submit": "/problems/allreduce/submit/",
            "submission-passed": self.passed,
            "submission-wrong": self.wrong,
            "submissions": "/submissions/",
            "leaderboards": "/leaderboards/",
            "leaderboard": "/problems/allreduce/leaderboard/?profile=cpux2",
            "leaderboard-empty": "/problems/allreduce/leaderboard/?profile=h200x8&size=base",
            "people": "/leaderboards/people/",
            "person": f"/leaderboards/people/{self.name}/",
            "records": "/leaderboards/records/",
            "problem-records": "/problems/allreduce/records/?profile=cpux2",
            "scaling": "/problems/allreduce/scaling/",
            "still-open": "/leaderboards/open/",
            "published": "/leaderboards/published/",
            "search": "/search/?q=all-reduce",
            "comparison": f"{self.wrong}compare/",
            "nodes": "/nodes/",
            "docs": "/docs/",
            "manual": "/docs/judge/timing-and-score/",
            "account": "/accounts/",
            "api": "/api/v1/",
        }


ANONYMOUS_PAGES = {"sign-in": "/accounts/sign-in/", "sign-up": "/accounts/sign-up/", "not-found": "/problems/no_such/"}


@pytest.fixture(scope="module")
def story(chromium: Browser, site_url: str) -> Iterator[Story]:
    """One for the whole file: judging takes a while."""
    context = chromium.new_context(base_url=site_url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    name = sign_up(page, "dora")
    passed = _judged(page, RIGHT, "Passed")
    wrong = _judged(page, WRONG_ON_RANK_1, "Wrong result")
    yield Story(name, context.storage_state(), passed, wrong)
    context.close()


def _judged(page: Page, source: str, verdict: str) -> str:
    submit(page, source)
    wait_for_verdict(page, verdict)
    return page.url


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_pages_fit_and_are_accessible(visit: Visit, story: Story, width: int, scheme: str) -> None:
    member = visit(width=width, scheme=scheme, state=story.state).page
    anybody = visit(width=width, scheme=scheme).page

    problems = [
        problem
        for page, pages in ((member, story.pages()), (anybody, ANONYMOUS_PAGES))
        for name, address in pages.items()
        for problem in problems_of(page, address, picture=f"{name}-{width}-{scheme}")
    ]
    assert problems == []


def test_the_main_pages_can_be_read_without_scripts(visit: Visit, story: Story) -> None:
    page = visit(state=story.state, scripts=False).page
    for address, words in {
        "/problems/": "All-reduce",
        "/problems/allreduce/": "dist.all_reduce",
        "/problems/allreduce/submit/": "solution.py",
        "/problems/allreduce/leaderboard/?profile=cpux2": story.name,
        story.passed: "Passed",
    }.items():
        page.goto(address)
        expect(page.get_by_role("main")).to_contain_text(words)


def test_a_keyboard_alone_reaches_the_content_and_leaves_the_editor(visit: Visit, story: Story) -> None:
    page = visit(state=story.state).page
    page.goto("/problems/allreduce/submit/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.locator(".cm-content").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.locator(".cm-content:focus")).to_have_count(0)


def test_on_a_phone_the_roofline_ends_with_rows_that_open_by_a_touch(visit: Visit) -> None:
    page = visit(width=390).page
    page.goto("/roofline/")
    rows = page.get_by_role("group", name="Rooflines")
    expect(rows).to_be_hidden()
    page.get_by_text("Every row with its times").click()
    expect(rows).to_be_visible()
