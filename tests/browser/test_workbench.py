"""The submit page: the verdict comes below the editor, marks its line, and nothing that was written is lost."""

import io
import re
import zipfile

from playwright.sync_api import FilePayload, Page, Route, expect

from tests.browser.conftest import PASSWORD, Visit, sign_up
from tests.browser.looks import problems_here
from tests.browser.test_journey import RIGHT, VERDICT_MS, assert_never_left, stay_on, write

BROKEN = RIGHT.replace("tensor.clone()", "tensr.clone()")
DESK = "/problems/allreduce/submit/?profile=cpux2"


def open_desk(page: Page) -> None:
    page.goto(DESK)
    page.get_by_label("Mode", exact=True).select_option("check")


def test_ctrl_enter_brings_the_verdict_below_the_editor_and_marks_the_line(visit: Visit) -> None:
    page = visit().page
    sign_up(page, "ida")
    open_desk(page)
    expect(page.get_by_role("tab", name="Statement")).to_have_attribute("aria-selected", "true")
    write(page, BROKEN)
    stay_on(page)
    page.keyboard.press("Control+Enter")
    verdict = page.locator("#verdict")
    expect(verdict.get_by_text("tensr").first).to_be_visible(timeout=VERDICT_MS)
    expect(page.get_by_role("tab", name="Result")).to_have_attribute("aria-selected", "true")
    expect(page).to_have_title(re.compile("^Runtime error · Submit"))
    expect(page.get_by_role("button", name="Runtime error", exact=True)).to_be_in_viewport()
    expect(page.locator(".cm-failingLine")).to_contain_text("tensr")
    assert problems_here(page, picture="desk-verdict-1280-light") == []

    verdict.get_by_role("link", name="solution.py:5").first.click()
    expect(page.locator(".cm-activeLine")).to_contain_text("tensr")
    write(page, RIGHT)
    expect(page.locator(".cm-failingLine")).to_have_count(0)
    page.keyboard.press("Control+Enter")
    expect(verdict.get_by_text("Passed", exact=True).first).to_be_visible(timeout=VERDICT_MS)
    assert_never_left(page)


def test_a_submission_made_while_an_answer_is_under_way_is_followed(visit: Visit) -> None:
    page = visit().page
    sign_up(page, "ivy")
    open_desk(page)
    held: list[Route] = []
    page.route("**/live/?evaluation=*", lambda route: held.append(route) if not held else route.continue_())
    write(page, BROKEN)
    with page.expect_request("**/live/?evaluation=*"):
        page.keyboard.press("Control+Enter")
    verdict = page.locator("#verdict")
    first = verdict.get_by_role("link", name=re.compile("^Submission ")).first
    earlier = first.inner_text()
    write(page, RIGHT)
    page.keyboard.press("Control+Enter")
    expect(first).not_to_have_text(earlier)
    held[0].continue_()
    expect(verdict.get_by_text("Passed", exact=True).first).to_be_visible(timeout=VERDICT_MS)


def test_what_is_refused_is_said_below_the_editor(visit: Visit) -> None:
    page = visit().page
    sign_up(page, "ines")
    open_desk(page)
    write(page, f"{RIGHT})")
    stay_on(page)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("#verdict").get_by_role("alert")).to_contain_text("line 8")
    assert_never_left(page)


def file_of(name: str, text: str) -> FilePayload:
    return {"name": name, "mimeType": "text/plain", "buffer": text.encode()}


def test_several_files_are_listed_and_judged_together_and_an_archive_shows_what_it_holds(visit: Visit) -> None:
    page = visit().page
    sign_up(page, "iris")
    open_desk(page)
    upload = page.locator("input[type=file]")
    expect(upload).to_have_attribute("multiple", "")  # once the page's script runs
    own = RIGHT.replace("tensor.clone()", "helper.copied(tensor)").replace(
        "import torch", "import helper\nimport torch", 1
    )
    helper = "def copied(tensor):\n    return tensor.clone()\n"
    upload.set_input_files([file_of("helper.py", helper), file_of("solution.py", own), file_of("notes.txt", "x")])
    expect(page.locator(".cm-content")).to_contain_text("helper.copied")
    expect(page.locator("#desk-files")).to_contain_text("notes.txt")
    expect(page.locator("#desk-files li")).to_have_text(re.compile("^helper.py"))
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("#verdict").get_by_text("Passed", exact=True).first).to_be_visible(timeout=VERDICT_MS)

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("solution.py", RIGHT)
        archive.writestr("kernels/sum.cu", "// nothing")
    upload.set_input_files({"name": "mine.zip", "mimeType": "application/zip", "buffer": packed.getvalue()})
    expect(page.locator("#desk-files")).to_contain_text("kernels/sum.cu")
    expect(page.locator("#desk-files")).to_contain_text("instead of the editor's text")


def test_hardware_without_a_node_stands_apart_and_another_profile_is_offered_first(visit: Visit) -> None:
    page = visit().page
    sign_up(page, "ivan")
    page.goto(DESK.replace("cpux2", "h200x2"))
    apart = page.locator("optgroup", has=page.locator("option[value=h200x2]"))
    expect(apart).to_have_attribute("label", "No node: waits up to 24 hours")
    page.get_by_role("button", name="Check on cpux2 first").click()
    expect(page.get_by_label("Profile", exact=True)).to_have_value("cpux2")
    expect(page.get_by_label("Mode", exact=True)).to_have_value("check")


def test_a_draft_survives_leaving_and_can_be_discarded(visit: Visit) -> None:
    page = visit().page
    sign_up(page, "jana")
    page.goto(DESK)
    write(page, RIGHT)
    expect(page.locator("#desk-form")).to_have_attribute("data-draft", "kept")
    page.goto(DESK)
    expect(page.locator(".cm-content")).to_contain_text("total = tensor.clone()")
    expect(page.get_by_role("status").filter(has_text="Your draft of")).to_be_visible()
    page.get_by_role("button", name="Discard the draft").click()
    expect(page.locator(".cm-content")).not_to_contain_text("total = tensor.clone()")
    page.goto(DESK)
    expect(page.locator(".cm-content")).not_to_contain_text("total = tensor.clone()")


def test_a_session_that_ended_meanwhile_costs_no_draft_and_takes_no_password(visit: Visit) -> None:
    page = visit().page
    name = sign_up(page, "lena")
    page.goto(DESK)
    write(page, RIGHT)
    expect(page.locator("#desk-form")).to_have_attribute("data-draft", "kept")
    page.context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Submit", exact=True).click()
    verdict = page.locator("#verdict")
    expect(verdict.get_by_role("alert")).to_contain_text("You are signed out. Sign in (your draft is kept).")
    expect(verdict.locator("form")).to_have_count(0)
    verdict.get_by_role("link", name="Sign in").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Sign in", exact=True).click()
    expect(page.locator(".cm-content")).to_contain_text("total = tensor.clone()")


def test_the_desk_shows_what_changed_since_the_last_submission(visit: Visit) -> None:
    page = visit().page
    sign_up(page, "karl")
    open_desk(page)
    write(page, RIGHT)
    page.keyboard.press("Control+Enter")
    page.locator("#live").wait_for()
    page.goto(DESK)
    write(page, RIGHT.replace("total", "whole", 1).replace("return total", "return whole"))
    page.get_by_role("tab", name="Changes").click()
    added = page.locator("#changes tr.is-added")
    expect(added.first).to_contain_text("whole = tensor.clone()")


def test_the_desk_works_without_scripts(visit: Visit) -> None:
    author = visit().page
    sign_up(author, "lena")
    page = visit(state=author.context.storage_state(), scripts=False).page
    page.goto(DESK)
    page.get_by_label("Source of solution.py").fill(RIGHT)
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/submissions/*-*/")
    page.get_by_role("link", name="Download").first.wait_for()
    expect(page.locator("#source")).to_be_visible()
