"""Models, runs, prompts and organisations as a vendor and a stranger see them; a run made in the browser throughout."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.browser.conftest import PATIENCE_MS, Visit, sign_up
from tests.browser.looks import ONE_LOOK, problems_of
from tests.browser.test_journey import RIGHT, VERDICT_MS, WRONG_ON_RANK_1


@dataclass(frozen=True)
class Vendor:
    """Somebody with two published runs, an agent's and a single shot, and a private one."""

    name: str
    model: str
    state: StorageState
    agent: str
    single: str
    draft: str

    def public(self) -> dict[str, str]:
        """Address by name of the picture: what anybody may see."""
        both = f"a={self.agent.split('/')[-2]}&b={self.single.split('/')[-2]}"
        return {
            "models-and-problems": "/models/?rows=category",
            "models": "/leaderboards/models/?profile=cpux2",
            "model": f"/models/{self.model}/",
            "run-agent": self.agent,
            "run-single": self.single,
            "run-problem": f"{self.agent}problems/allreduce/",
            "runs-compared": f"/runs/compare/?{both}",
            "prompt": "/problems/allreduce/prompt/",
        }

    def own(self) -> dict[str, str]:
        """The same for what they alone see."""
        return {
            "runs": "/runs/",
            "run-private": self.draft,
            "run-new": "/runs/new/",
            "run-import": "/runs/import/",
            "organisations": "/organisations/",
        }


@pytest.fixture(scope="module")
def vendor(chromium: Browser, site_url: str) -> Iterator[Vendor]:
    """One for the module: judging takes a while."""
    context = chromium.new_context(base_url=site_url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    name = sign_up(page, "vera")
    model = f"writer-{uuid.uuid4().hex[:6]}"
    agent = _run(page, model, mode="agentic", attempts=[(WRONG_ON_RANK_1, "check"), (RIGHT, "ranked")])
    single = _run(page, model, mode="single_shot", attempts=[("def solution(tensor):\n    return None\n", "ranked")])
    for run in (agent, single):
        _publish(page, run)
    draft = _run(page, f"{model}-draft", mode="single_shot", attempts=[])
    yield Vendor(name, model, context.storage_state(), agent, single, draft)
    context.close()


def _run(page: Page, model: str, *, mode: str, attempts: list[tuple[str, str]]) -> str:
    """Make a run on `cpux2` and fill it with steps of one sample of all-reduce; its path."""
    page.goto("/runs/new/")
    page.get_by_label("Model", exact=True).fill(model)
    page.get_by_label("Mode", exact=True).select_option(mode)
    page.get_by_label("Backend", exact=True).select_option("pytorch")
    page.get_by_label("Profile", exact=True).select_option("cpux2")
    page.get_by_role("button", name="Create the run").click()
    page.wait_for_url("**/runs/*-*/")
    path = "/" + page.url.split("/", 3)[3]
    lines = [
        {
            "problem": "allreduce",
            "step": step,
            "source": source,
            "mode": judged,
            "cost_usd": 0.25,
            "tokens_out": 900,
            "trajectory": "I read the statement, then I wrote this.",
        }
        for step, (source, judged) in enumerate(attempts)
    ]
    if lines:
        data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        file = {"name": "attempts.jsonl", "mimeType": "application/jsonl", "buffer": data}
        page.get_by_label("Attempts", exact=True).set_input_files(file)
        page.get_by_role("button", name="Upload").click()
        page.wait_for_url(f"**{path}")
    return path


def _publish(page: Page, run: str) -> None:
    """Wait until everything is judged, then publish."""
    page.goto(run)
    expect(page.locator("#live[hx-get]")).to_have_count(0, timeout=VERDICT_MS)
    page.reload()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("main")).to_contain_text("published")


@pytest.mark.parametrize(("width", "scheme"), ONE_LOOK)
def test_pages_of_runs_fit_and_are_accessible(visit: Visit, vendor: Vendor, width: int, scheme: str) -> None:
    owner = visit(width=width, scheme=scheme, state=vendor.state).page
    anybody = visit(width=width, scheme=scheme).page
    found = [
        problem
        for page, pages in ((owner, vendor.own()), (anybody, vendor.public()))
        for name, address in pages.items()
        for problem in problems_of(page, address, picture=f"{name}-{width}-{scheme}")
    ]
    assert found == []


def test_a_stranger_reads_what_a_model_reached_without_scripts(visit: Visit, vendor: Vendor) -> None:
    page = visit(scripts=False).page
    page.goto(f"/models/{vendor.model}/")
    page.get_by_role("link", name="Agentic").first.click()
    expect(page.get_by_role("main")).to_contain_text("problems solved")
    page.get_by_role("link", name="All-reduce").first.click()
    expect(page.get_by_role("row").filter(has_text="Wrong result")).to_have_count(1)
    expect(page.get_by_role("row").filter(has_text="Passed")).to_have_count(1)
    page.get_by_role("link", name="Trajectory of sample 0, step 1").click()
    expect(page.get_by_role("main")).to_contain_text("I read the statement")


PLACE_OF_A_STEP = """() => {
  const stage = document.querySelector("#curve-figure .plot-stage");
  const { xaxis, yaxis } = stage._fullLayout;
  const isStep = ([address]) => address && !address.endsWith("p=0.0");
  const curve = stage.data.find((trace) => trace.customdata?.some(isStep));
  const { left, top, width } = stage.querySelector(".main-svg").getBoundingClientRect();
  const scale = width / stage.layout.width;
  const place = curve.customdata.findIndex(isStep);
  return {
    x: left + scale * (xaxis._offset + xaxis.d2p(curve.x[place])),
    y: top + scale * (yaxis._offset + yaxis.d2p(curve.y[place])),
    address: curve.customdata[place][0],
  };
}"""


def test_a_click_on_a_curve_moves_p(visit: Visit, vendor: Vendor) -> None:
    page = visit(state=vendor.state).page
    page.goto("/leaderboards/models/?profile=cpux2")
    plot = page.locator("#curve-figure")
    plot.locator(".plot-wide svg").hover()
    expect(plot).to_have_attribute("data-drawn", "")
    step = page.evaluate(PLACE_OF_A_STEP)
    page.mouse.move(step["x"] - 30, step["y"] - 30)
    page.mouse.move(step["x"], step["y"], steps=6)
    page.wait_for_function("() => document.querySelector('#curve-figure .plot-stage')._hoverdata?.length")
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url(f"**{step['address']}")
    p = step["address"].partition("p=")[2]
    expect(page.get_by_label("p of fast_p")).to_have_value(p.removesuffix(".0"))


def test_a_private_run_is_nobody_elses(visit: Visit, vendor: Vendor) -> None:
    page = visit().page
    page.goto(vendor.draft)
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
