"""Rooflines and taxonomy in a real browser: fit and accessible, zoom that the address keeps, pictures, no scripts."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from portal.charts.chart import Axis, Point, Scale, Unit
from portal.charts.drawing import PHONE_PX, svg
from portal.charts.runs import agent_problems, agent_speedups, curves
from portal.charts.times import Series, over_size, size_name
from tests.browser.conftest import Visit
from tests.browser.looks import LOOKS, LOOKS_FOR_AXE, problems_of

PAGES = {"roofline": "/roofline/", "taxonomy": "/taxonomy/#edges"}
# axe looks at every cell of every row: a few rows show it as much as all of them, in a tenth of the time.
SHORT_PAGES = {"roofline-attention": "/roofline/?block=attention", "taxonomy": "/taxonomy/?layer=moe#edges"}
PLOT = "#roofline-figure"
POINTS = f"{PLOT} .scatterlayer .point"
RANGE = "document.querySelector('#roofline-figure .plot-stage').layout.xaxis.range"


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
    expect(page.locator(f"{PLOT} .plot-wide .plot-marks")).to_be_hidden()
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
    expect(touched.locator(f"{PLOT} .plot-wide .plot-marks")).to_be_visible()
    expect(touched.locator(f"{PLOT} .plot-stage")).to_be_hidden()


def test_zooming_changes_the_address_and_the_address_restores_the_view(visit: Visit) -> None:
    page = visit().page
    page.goto("/roofline/?axis=traffic")
    _touch_the_plot(page)
    _drag_over_the_plot(page)
    page.wait_for_url("**window=*")
    # The chart of that part comes from the server, with the ticks and labels that fit there.
    expect(page.locator(f"{PLOT}[data-plot*='window=']")).to_have_attribute("data-drawn", "")
    assert _until_still(page.locator(PLOT)) == []
    address = page.get_by_role("link", name="Link to this view").get_attribute("href")
    assert address is not None
    assert "window=" in address
    assert "axis=traffic" in address
    shown = page.evaluate(RANGE)
    page.goto(address)
    _touch_the_plot(page)
    assert page.evaluate(RANGE) == pytest.approx(shown, abs=0.001)


def test_the_legend_hides_a_series_by_keyboard_and_by_mouse(visit: Visit) -> None:
    page = visit().page
    page.goto("/roofline/")
    page.locator(f"{PLOT} .plot-file").focus()
    expect(page.locator(PLOT)).to_have_attribute("data-drawn", "")
    page.keyboard.press("Tab")
    button = page.locator(f"{PLOT} .plot-series").first
    expect(button).to_be_focused()
    name = button.get_attribute("value")
    shown = f"""document.querySelector('{PLOT} .plot-stage').data
        .filter((trace) => trace.meta.series === {json.dumps(name)} && trace.visible).length"""
    before = page.evaluate(shown)
    assert before > 0
    page.keyboard.press("Space")
    page.wait_for_function(f"() => {shown} === 0")
    expect(page.get_by_role("button", name=f"Show {name}", pressed=False)).to_be_focused()
    expect(page.locator(f"{PLOT} .plot-wide [data-series]").first).to_have_attribute("data-off", "")
    assert page.evaluate(shown.replace("=== " + json.dumps(name), "!== " + json.dumps(name))) > 0
    button.click()
    page.wait_for_function(f"() => {shown} === {before}")


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
    # It looks at a pointer now and then: what it saw last is what a click opens.
    page.wait_for_function(f"() => document.querySelector('{PLOT} .plot-stage')._hoverdata?.length")
    page.mouse.click(x, y)
    page.wait_for_url("**/problems/**")


WORDS = """
(box) => {
  const still = [...box.querySelectorAll("svg")].find((svg) => svg.getBoundingClientRect().width);
  const edge = still.getBoundingClientRect();
  const shown = [...box.querySelectorAll("svg text")].filter((text) => text.getBoundingClientRect().width);
  const words = shown.map((text) => {
    // The letters themselves: a line is higher than they are. A turned label has turned corners.
    const { x, y, width, height } = text.getBBox();
    const corners = [[x, 0.2], [x + width, 0.2], [x + width, 0.82], [x, 0.82]].map(([at, part]) =>
      new DOMPoint(at, y + height * part).matrixTransform(text.getScreenCTM()));
    return { text: text.textContent, corners };
  });
  const reach = (corners, nx, ny) => {
    const places = corners.map(({ x, y }) => x * nx + y * ny);
    return [Math.min(...places), Math.max(...places)];
  };
  const areApart = (one, other) => [one, other].some((corners) => [0, 1].some((side) => {
    const [a, b] = [corners[side], corners[side + 1]];
    const [[low, high], [least, most]] = [one, other].map((each) => reach(each, b.x - a.x, b.y - a.y));
    return high <= least || most <= low;
  }));
  const problems = [];
  words.forEach(({ text, corners }, place) => {
    const isCut = corners.some(({ x, y }) => x < edge.left || x > edge.right || y < edge.top || y > edge.bottom);
    if (isCut) problems.push(`cut: ${text}`);
    for (const other of words.slice(place + 1))
      if (!areApart(corners, other.corners)) problems.push(`overlap: ${text} | ${other.text}`);
  });
  // Marks have no letters under them: a symbol's middle half, for its corners are mostly empty.
  const symbols = [...box.querySelectorAll(".plot-marks path, .scatterlayer .point")].filter((mark) =>
    mark.getAttribute("pointer-events") !== "all" || mark.hasAttribute("stroke"));
  for (const mark of symbols) {
    const { left, right, top, bottom, width, height } = mark.getBoundingClientRect();
    if (!width || Math.max(width, height) > 20) continue;
    const [dx, dy] = [width / 4, height / 4];
    const corners = [[left + dx, top + dy], [right - dx, top + dy], [right - dx, bottom - dy], [left + dx, bottom - dy]]
      .map(([x, y]) => ({ x, y }));
    for (const { text, corners: letters } of words)
      if (!areApart(letters, corners)) problems.push(`under a mark: ${text}`);
  }
  if (words.length < 3) problems.push(`only ${words.length} words`);
  return problems;
}
"""
PAGES_WITH_CHARTS = (
    "/",
    *(
        f"/roofline/?profile=h200x2-nomc&size={size}&axis={axis}"
        for size in ("base", "all")
        for axis in ("wire", "memory", "traffic")
    ),
    "/roofline/?profile=h200x8-nomc&window=0,4,9,14",
    "/leaderboards/published/",
    "/models/",
    "/problems/gemm_allreduce/",
    "/problems/alltoall/",
    "/problems/gemm_allreduce/records/?profile=h200x2-nomc",
    "/models/gemini-3-pro-preview/",
)
"""With `make run`'s recorded entries; the submissions and runs among them are found on their boards."""


def _addresses(page: Page, start: str, pattern: str) -> list[str]:
    page.goto(start)
    found = {link.get_attribute("href") for link in page.locator(f'main a[href^="{pattern}"]').all()}
    return sorted(str(address) for address in found)


def _until_still(box: Locator) -> list[str]:
    """What lies on words once two looks, some frames apart, find the same."""
    found = box.evaluate(WORDS)
    for _ in range(100):
        box.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 50))")
        before, found = found, box.evaluate(WORDS)
        if found == before:
            break
    return found


@pytest.mark.parametrize("width", [1280, 390])
def test_words_of_charts_lie_apart_before_and_after_a_touch(visit: Visit, width: int) -> None:
    page = visit(width=width).page
    boards = [
        board
        for slug in ("gemm_allreduce", "ring_attention")
        for board in [f"/problems/{slug}/leaderboard/?profile=h200x2-nomc"]
    ]
    entries = [address for board in boards for address in _addresses(page, board, "/submissions/")]
    runs = _addresses(page, "/models/?profile=h200x2-nomc", "/runs/")[:2]
    assert entries
    assert runs
    problems, charts = [], 0
    for address in (*PAGES_WITH_CHARTS, *entries, *runs):
        page.goto(address)
        for box in page.locator("[data-plot]:visible").all():
            charts += 1
            found = box.evaluate(WORDS)
            box.dispatch_event("pointerover")
            expect(box).to_have_attribute("data-drawn", "")
            # Plotly moves its marks in the frames after that.
            found += _until_still(box)
            problems += [f"{address} {box.get_attribute('id')}: {each}" for each in found]
    assert problems == []
    assert charts > 30


MESSAGES = [4**power for power in range(7, 16)]


def programs(*, in_bandwidth: bool) -> list[Series]:
    """The reference and three entries with a start-up time, and intervals."""

    def height(size: int, us: float) -> float:
        return size / us / 1e3 if in_bandwidth else us

    return [
        Series(
            name=name,
            points=tuple(Point(x=size, y=height(size, alpha + size / 3e5)) for size in MESSAGES),
            intervals=tuple((size, height(size, 0.9 * alpha), height(size, 1.2 * alpha)) for size in MESSAGES[:3]),
        )
        for name, alpha in (("reference", 12.0), ("somebody-with-a-long-name", 4.0), ("bob", 25.0), ("carol", 6.0))
    ]


SIZES = Axis(
    title="Message size", scale=Scale.LOG, names=tuple((float(size), size_name(size, "bytes")) for size in MESSAGES)
)
SELDOM = {
    "scaling": curves(
        {f"{who}, base": ((2, 80.0), (4, 95.0), (8, 1310.0)) for who in ("best", "reference")},
        x=Axis(title="Ranks", scale=Scale.LOG, low=1.8, high=8.9, names=((2, "2"), (4, "4"), (8, "8"))),
        y=Axis(title="Time of a call", scale=Scale.LOG, unit=Unit.MICROSECONDS),
    ),
    "steps": agent_problems({"passing": [(0.0, 1.0), (3.0, 7.0)], "faster": [(0.0, 0.0), (3.0, 2.0)]}, x_title="Step"),
    "sweep": over_size(
        programs(in_bandwidth=False),
        x=SIZES,
        y=Axis(title="Time of a call", scale=Scale.LOG, unit=Unit.MICROSECONDS),
        floor=[(size, size / 1e6) for size in MESSAGES],
    ),
    "bandwidth": over_size(
        programs(in_bandwidth=True),
        x=SIZES,
        y=Axis(title="Bus bandwidth, GB/s per rank", scale=Scale.LOG),
        levels=[("wire 450 GB/s one way (datasheet)", 450.0), ("peer copy 365 GB/s (measured)", 365.0)],
    ),
    "score": agent_speedups({"solved problems": [(0.25, 0.9), (12.5, 1.7)]}, x_title="Cost so far (USD)"),
}
"""What the recorded entries show nowhere; pages draw them in the same way."""


@pytest.mark.parametrize("name", SELDOM)
@pytest.mark.parametrize("width", [1140, 540, PHONE_PX])
def test_words_of_charts_that_need_more_entries_lie_apart(visit: Visit, name: str, width: int) -> None:
    page = visit().page
    page.set_content(f"<main>{svg(SELDOM[name], width=width, is_standalone=True)}</main>")
    assert page.locator("main").evaluate(WORDS) == []


def test_a_figure_is_kept_by_its_digest_and_as_a_file_that_stands_alone(visit: Visit, tmp_path: Path) -> None:
    page = visit().page
    page.goto("/roofline/?profile=h200x8-nomc")
    with page.expect_response("**figure=roofline-figure**") as answered:
        _touch_the_plot(page)
    answer = answered.value
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    again = page.request.get(answer.url, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status == 304
    page.goto("/roofline/?profile=h200x8-nomc")
    with page.expect_download() as saving:
        page.locator(f"{PLOT} .plot-file").click()
    kept = tmp_path / "kept.html"
    saving.value.save_as(kept)
    alone = page.context.new_page()
    alone.goto(kept.as_uri())
    alone.locator(".scatterlayer .point").first.wait_for(state="attached")
    assert _until_still(alone.locator("figure")) == []


def test_a_chart_that_a_page_does_not_have_is_named(visit: Visit) -> None:
    answer = visit().page.request.get("/roofline/?figure=nonsense")
    assert answer.status == 404
    assert "This page has no chart" in answer.text()


def test_the_chart_can_be_saved_without_scripts(visit: Visit) -> None:
    page = visit(scripts=False).page
    page.goto("/roofline/?profile=h200x8-nomc")
    with page.expect_download() as saving:
        page.get_by_role("link", name="SVG", exact=True).click()
    assert saving.value.suggested_filename == "pkb-roofline-h200x8-nomc.svg"
    assert saving.value.path().read_bytes().startswith(b"<svg")


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
