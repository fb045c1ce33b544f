"""The main path as a person walks it: sign up, submit, watch the judging, stand on the board."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, sign_up

VERDICT_MS = 120_000
RIGHT = """\
import torch.distributed as dist


def solution(tensor):
    total = tensor.clone()
    dist.all_reduce(total)
    return total
"""
WRONG_ON_RANK_1 = """\
import torch.distributed as dist


def solution(tensor):
    total = tensor.clone()
    dist.all_reduce(total)
    if dist.get_rank() == 1:
        total[0, 0] += 100
    return total
"""


def submit(page: Page, source: str, *, mode: str = "ranked", problem: str = "allreduce") -> None:
    """Write a program into the editor of the submit page and send it for `cpux2`."""
    page.goto(f"/problems/{problem}/submit/")
    page.get_by_label("Profile", exact=True).select_option("cpux2")
    page.get_by_label("Mode", exact=True).select_option(mode)
    write(page, source)
    page.get_by_role("main").get_by_role("button", name="Submit", exact=True).click()
    page.locator("#verdict").get_by_role("link", name=re.compile("^Submission")).click()
    page.wait_for_url("**/submissions/*-*/")


def write(page: Page, source: str) -> None:
    """Replace what is in the editor, as a person who pastes."""
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source)
    expect(editor).to_contain_text("def solution(tensor):")


def wait_for_verdict(page: Page, words: str) -> None:
    """Wait until the live part of a submission's page says how it ended."""
    expect(page.locator("#live").get_by_text(words, exact=True).first).to_be_visible(timeout=VERDICT_MS)


def stay_on(page: Page) -> None:
    """Mark the page, so that a reload differs from a change in place."""
    page.evaluate("window.neverReloaded = true")


def assert_never_left(page: Page) -> None:
    """Fail when the page was loaded anew since `stay_on`."""
    assert page.evaluate("window.neverReloaded === true"), "the page was reloaded"


def assert_the_timeline_zooms(page: Page) -> None:
    """Half of the recorded call fills the picture after one step, by button and by key, and all of it comes back."""
    plot = page.locator(".recording-wide .recording-plot")
    whole = plot.get_attribute("viewBox")
    assert whole is not None
    length = int(whole.split()[2])

    def shows(start: float, span: float) -> None:
        numbers = (f"{value:.3f}".rstrip("0").rstrip(".") for value in (start, span))
        expect(plot).to_have_attribute("viewBox", re.compile("^{} 0 {} ".format(*numbers)))

    page.get_by_role("button", name="Zoom in").click()
    shows(length / 4, length / 2)
    page.keyboard.press("ArrowLeft")
    shows(length / 8, length / 2)
    page.get_by_role("button", name="Whole call").click()
    shows(0, length)


def test_a_right_program_is_judged_before_ones_eyes_and_stands_on_the_board(visit: Visit) -> None:
    page = visit().page
    name = sign_up(page, "ada")

    submit(page, RIGHT)
    stay_on(page)
    wait_for_verdict(page, "Passed")
    assert_never_left(page)
    assert_the_timeline_zooms(page)

    page.goto("/problems/allreduce/leaderboard/?profile=cpux2")
    expect(page.get_by_role("row").filter(has_text=name)).to_have_count(1)
    page.goto("/submissions/")
    expect(page.get_by_role("row").filter(has_text="All-reduce")).to_contain_text("Passed")


def test_a_wrong_program_learns_which_rank_was_wrong_and_stands_nowhere(visit: Visit) -> None:
    page = visit().page
    name = sign_up(page, "berta")

    submit(page, WRONG_ON_RANK_1)
    stay_on(page)
    wait_for_verdict(page, "Wrong result")
    expect(page.locator("#live")).to_contain_text("Rank 1, call")
    assert_never_left(page)

    page.goto("/problems/allreduce/leaderboard/?profile=cpux2")
    expect(page.get_by_role("row").filter(has_text=name)).to_have_count(0)


def test_a_program_without_solution_is_refused_beside_the_editor_and_kept(visit: Visit) -> None:
    page = visit().page
    sign_up(page, "carla")
    page.goto("/problems/allreduce/submit/")
    source = "def solve(tensor):\n    return tensor\n\n\n# not def solution(tensor):\n"
    write(page, source)
    page.get_by_role("main").get_by_role("button", name="Submit", exact=True).click()

    expect(page.get_by_role("main")).to_contain_text("there is no function called solution")
    expect(page.locator(".cm-content")).to_contain_text("def solve(tensor):")
    page.goto("/submissions/")
    expect(page.get_by_role("main")).not_to_contain_text("All-reduce")
