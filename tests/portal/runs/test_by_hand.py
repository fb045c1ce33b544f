"""Every published figure of a small run, worked out by hand, wherever it is shown.

Two samples of each problem were declared. Intervals of `report_on` are 0.2 wide with the score in the middle:

    problem     sample 0                        sample 1
    allreduce   passed, 1.3 [1.2, 1.4]          passed, 1.0 [0.9, 1.1]
    allgather   passed, 1.05 [0.95, 1.15]       wrong values
    broadcast   an answer without a program     -
    reduce      passed, in check mode only      -
    83 others   -                               -
"""

import math
import re

import pytest

from evaluator.contract import Verdict
from portal.exports import tables
from portal.runs import actions, page_data, queries
from portal.runs.models import Attempt
from problems import registry
from tests.portal.runs.rows import add, end, line, make_run

pytestmark = pytest.mark.django_db
PROBLEMS = len(registry.problems())
MISSING = 2 * PROBLEMS - 6
"""Samples that the run of these tests declares and has no attempt for."""
Z = 1.959963984540054


@pytest.fixture
def run(alice, node):
    run = make_run(alice, mode="best_of_k", k=2)
    paid = {"tokens_in": 1000, "tokens_out": 100, "cost_usd": 0.01}
    add(
        run,
        line("allreduce", 0, **paid),
        line("allreduce", 1, **paid),
        line("allgather", 0, **paid),
        line("allgather", 1, **paid),
        line("broadcast", 0, source="", **paid),
        line("reduce", 0, mode="check", **paid),
    )
    ends = {
        ("allreduce", 0): {"low": 1.2},
        ("allreduce", 1): {"low": 0.9},
        ("allgather", 0): {"low": 0.95},
        ("allgather", 1): {"verdict": Verdict.WRONG_RESULT},
        ("reduce", 0): {},
    }
    for (problem, sample), report in ends.items():
        end(Attempt.objects.get(run=run, problem=problem, sample=sample), node, **report)
    return run


def assert_wilson(estimate):
    """The ends are the shares from which the value lies exactly 1.96 standard deviations away."""
    for bound in (estimate.low, estimate.high):
        assert abs(estimate.value - bound) / math.sqrt(bound * (1 - bound) / PROBLEMS) == pytest.approx(Z)


def test_the_figures_of_the_run(run):
    found = queries.run_figures(run)

    assert (found.problems, found.attempted, found.solved, found.faster) == (PROBLEMS, 4, 2, 1)
    assert found.correct_at_1.value == pytest.approx((2 / 2 + 1 / 2) / PROBLEMS)
    # Of allgather's two samples one is right: drawing both finds it.
    assert found.correct_at_k.value == pytest.approx(2 / PROBLEMS)
    assert_wilson(found.correct_at_1)
    assert_wilson(found.correct_at_k)
    assert found.geomean_speedup == pytest.approx(math.sqrt(1.3 * 1.05))
    assert found.cost_usd == pytest.approx(6 * 0.01)
    assert found.tokens == 6 * 1100
    assert found.verdicts == {"PASSED": 3, "WRONG_RESULT": 1, "IMPORT_ERROR": 1}
    bare = found.without_verdict
    assert (bare.pending, bare.unranked, bare.missing) == (0, 1, MISSING)
    # Every sample that the run declares ended somehow.
    assert sum(found.verdicts.values()) + bare.unranked + bare.missing == 2 * PROBLEMS


def test_fast_p_falls_where_an_interval_begins(run):
    found = queries.run_figures(run)
    steps = [(0.0, 1.5), (0.9, 1.0), (0.95, 0.5), (1.2, 0.0)]
    assert [(at, pytest.approx(share * PROBLEMS)) for at, share in found.fast()] == steps
    assert found.fast_at(1.0).value == pytest.approx(0.5 / PROBLEMS)
    assert found.fast_at(1.0, k=2).value == pytest.approx(1 / PROBLEMS)
    assert found.fast_at(0.92).value == pytest.approx((0.5 + 0.5) / PROBLEMS)


def test_the_bars_of_how_samples_ended_hold_every_sample(run):
    rows = dict(page_data.failure_rows([("writer 1", queries.run_figures(run))], is_published=False))
    assert rows == {
        "Passed": [3],
        "Wrong values": [1],
        "Does not build or import": [1],
        "No ranked result": [1],
        "No attempt": [MISSING],
    }


def test_what_is_pending_is_shown_as_pending(run):
    add(run, line("scatter", 0))
    bare = queries.run_figures(run).without_verdict
    assert (bare.pending, bare.unranked, bare.missing) == (1, 1, MISSING - 1)
    rows = dict(page_data.failure_rows([("writer 1", queries.run_figures(run))], is_published=False))
    assert (rows["Not judged yet"], rows["No attempt"]) == ([1], [MISSING - 1])


def test_the_page_says_the_same(client, run):
    actions.publish_run(run, by=run.created_by, sources="public")
    page = client.get(f"/runs/{run.pk}/").content.decode()
    tiles = re.findall(r'<div class="figure"><b>(.*?)</b><span>(.*?)</span>', page)
    said = {label.split(",")[0]: (figure, label) for figure, label in tiles}
    assert said["correct@1"][0] == f"{share(1.5)} %"
    assert said["correct@2"][0] == f"{share(2)} %"
    assert said["problems solved"] == (f"2 of {PROBLEMS}", "problems solved, 1 faster than the reference")
    assert said["geomean speedup over solved problems"][0] == "1.17\u00d7"
    assert said["cost"] == ("$0.06", "cost, 6600 tokens")
    assert said["attempts"][0] == "6"


def share(solved):
    """So many problems of all, in per cent as pages show it."""
    return f"{100 * solved / PROBLEMS:.2g}"


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))


def test_the_model_board_and_the_models_page_say_the_same(client, run):
    actions.publish_run(run, by=run.created_by, sources="public")
    board = client.get("/leaderboards/models/?profile=cpux2&p=1").content.decode()
    row = text_of(board.split("<tbody>")[1].split("</tr>")[0])
    assert re.findall(r"([\d.]+) %\s+[\d.]+ % to", row) == [share(1.5), share(2), share(0.5)]
    assert f"2 of {PROBLEMS}" in row
    assert "1.17" in row
    assert "$0.06" in row
    own = text_of(client.get(f"/models/{run.model.slug}/").content.decode().split("<tbody>")[1].split("</tr>")[0])
    assert re.search(rf" 6 {share(1.5)} % .* {share(2)} % .* 2 1 \$0\.06 ", own)


def test_an_agents_steps(client, alice, node):
    """Step 0 was checked only, step 1 had no program, step 2 is 1.3 [1.2, 1.4]; every step was paid for."""
    agent = make_run(alice, mode="agentic")
    paid = {"tokens_out": 100, "cost_usd": 0.25}
    add(agent, line(step=0, mode="check", **paid), line(step=1, source="", **paid), line(step=2, **paid))
    for step, report in ((0, {}), (2, {"low": 1.2})):
        end(Attempt.objects.get(run=agent, step=step), node, **report)
    actions.publish_run(agent, by=alice, sources="public")
    page = client.get(f"/runs/{agent.pk}/").content.decode()
    table = page.split('aria-label="Progress by step"')[1].split("<tbody>")[1].split("</tbody>")[0]
    mean_of_all = 1.3 ** (1 / PROBLEMS)
    assert [text_of(row).split() for row in table.split("</tr>")[:-1]] == [
        ["0", "1", "0", "not", "timed", "not", "timed", "1", "$0.25"],
        ["1", "1", "0", "not", "timed", "not", "timed", "2", "$0.50"],
        ["2", "1", "1", "1.30\u00d7", f"{mean_of_all:.2f}\u00d7", "3", "$0.75"],
    ]
    assert "$0.75" in text_of(page)
    assert f"1 of {PROBLEMS} problems solved, 1 faster than the reference" in text_of(page)


def test_a_run_of_one_sample_has_one_figure_of_correctness(client, alice, node):
    run = make_run(alice)
    end(add(run, line()).results[0].attempt, node, low=1.5)
    actions.publish_run(run, by=alice, sources="public")
    assert client.get(f"/runs/{run.pk}/").content.decode().count("<span>correct@1,") == 1


def test_the_api_says_the_same(anonymous, run):
    actions.publish_run(run, by=run.created_by, sources="public")
    said = anonymous.get(f"/api/v1/runs/{run.pk}/").json()["figures"]
    assert (said["solved"], said["faster"], said["attempted"]) == (2, 1, 4)
    assert (said["pending"], said["unranked"], said["missing"]) == (0, 1, MISSING)
    assert said["verdicts"] == {"PASSED": 3, "WRONG_RESULT": 1, "IMPORT_ERROR": 1}
    assert (said["cost_usd"], said["tokens"]) == (pytest.approx(0.06), 6600)
    fast = {row["p"]: row["value"] * PROBLEMS for row in said["fast"]}
    assert fast == pytest.approx({0.0: 1.5, 0.5: 1.5, 1.0: 0.5, 1.5: 0, 2.0: 0, 3.0: 0})
    (row,) = anonymous.get("/api/v1/leaderboards/models/?profile=cpux2&p=1").json()["rows"]
    assert row["fast_p"]["value"] == pytest.approx(0.5 / PROBLEMS)
    assert row["figures"] == said


def test_the_export_says_the_same(exports_here, run):
    actions.publish_run(run, by=run.created_by, sources="public")
    table = tables.get_table("runs")
    (values,) = table.rows()
    row = dict(zip([column.name for column in table.columns], values, strict=True))
    assert (row["solved"], row["faster"], row["attempted"]) == (2, 1, 4)
    assert row["geomean_speedup"] == pytest.approx(math.sqrt(1.3 * 1.05))
    assert (row["cost_usd"], row["tokens"]) == (pytest.approx(0.06), 6600)
