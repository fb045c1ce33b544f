"""Rooflines and taxonomy in a real browser: fit and accessible, zoom that the address keeps, pictures, no scripts."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.looks import LOOKS, LOOKS_FOR_AXE, problems_of

PAGES = {"roofline": "/roofline/", "taxonomy": "/taxonomy/#edges"}
# axe looks at every cell of every row: a few rows show it as much as all of them, in a tenth of the time.
SHORT_PAGES = {"roofline-attention": "/roofline/?block=attention", "taxonomy": "/taxonomy/?layer=moe#edges"}
PLOT = "[data-plot=roofline-figure]"
POINTS = f"{PLOT} .scatterlayer .point"
RANGE = "document.querySelector('[data-plot=roofline-figure] .plot-stage').layout.xaxis.range"


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_chart_pages_fit_and_are_accessible(visit: Visit, width: int, scheme: str) -> None:
    page = visit(width=width, scheme=scheme).page
    pages = SHORT_PAGES if f"{width}-{scheme}" in LOOKS_FOR_AXE else PAGES
    found = [
        problem
        for name, address in pages.items()
        for problem in problems_of(page, address, picture=f"{name}-{width}-{scheme}")
    ]
    assert found == []


def _touch_the_plot(page: Page) -> None:
    """Point at the picture, so that Plotly takes its place."""
    page.locator(f"{PLOT} .plot-wide svg").hover()
    expect(page.locator(PLOT)).to_have_attribute("data-drawn", "")
    expect(page.locator(f"{PLOT} .plot-still")).to_be_hidden()
    page.locator(POINTS).first.wait_for(state="attached")


def _drag_over_the_plot(page: Page) -> None:
    box = page.locator(f"{PLOT} .nsewdrag").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.8, steps=4)
    page.mouse.up()


def test_the_picture_is_there_before_any_script_and_in_print(visit: Visit) -> None:
    page = visit(scripts=False).page
    page.goto("/roofline/")
    expect(page.locator(f"{PLOT} .plot-wide svg")).to_be_visible()
    touched = visit().page
    touched.goto("/roofline/")
    _touch_the_plot(touched)
    touched.emulate_media(media="print")
    expect(touched.locator(f"{PLOT} .plot-still")).to_be_visible()
    expect(touched.locator(f"{PLOT} .plot-stage")).to_be_hidden()


def test_zooming_changes_the_address_and_the_address_restores_the_view(visit: Visit) -> None:
    page = visit().page
    page.goto("/roofline/?axis=traffic")
    _touch_the_plot(page)
    _drag_over_the_plot(page)
    page.wait_for_url("**window=*")
    address = page.get_by_role("link", name="Link to this view").get_attribute("href")
    assert address is not None
    assert "window=" in address
    assert "axis=traffic" in address
    shown = page.evaluate(RANGE)
    page.goto(address)
    _touch_the_plot(page)
    assert page.evaluate(RANGE) == pytest.approx(shown, abs=0.001)


def test_a_point_says_what_it_is_and_opens_its_problem(visit: Visit) -> None:
    page = visit().page
    page.goto("/roofline/?profile=h200x8-nomc")
    _touch_the_plot(page)
    point = page.locator(POINTS).first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    # The library hears of movements, not of a pointer that is suddenly there.
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 30, y - 30)
    page.mouse.move(x, y, steps=6)
    expect(page.locator(f"{PLOT} .hoverlayer")).to_contain_text("of the roofline")
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url("**/problems/**")


def test_the_chart_can_be_saved_without_scripts(visit: Visit) -> None:
    page = visit(scripts=False).page
    page.goto("/roofline/?profile=h200x8-nomc")
    for name, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as saving:
            page.get_by_role("link", name=name, exact=True).click()
        assert saving.value.suggested_filename == f"pkb-roofline-h200x8-nomc.{name.lower()}"
        assert saving.value.path().read_bytes().startswith(start)


def test_rooflines_and_taxonomy_can_be_read_without_scripts(visit: Visit) -> None:
    page = visit(scripts=False).page
    page.goto("/roofline/?profile=h200x8-nomc&sort=public&order=descending")
    expect(page.get_by_role("row").nth(1)).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("is not our baseline")
    page.get_by_role("link", name="Floor").click()
    expect(page.locator("[aria-sort=ascending]")).to_contain_text("Floor")
    page.goto("/taxonomy/")
    shown = page.get_by_role("group", name="Cells show")
    shown.get_by_role("link", name="Share solved").click()
    expect(shown.locator("[aria-current]")).to_contain_text("Share solved")
    page.get_by_role("link", name="Attention, context parallel").click()
    expect(page.get_by_role("heading", name="Problems")).to_be_visible()
    expect(page.get_by_label("Parallelism")).to_have_value("context")
