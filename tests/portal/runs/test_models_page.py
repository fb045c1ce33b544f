"""Models against problems, and what models have solved on the pages that say what is still open."""

import json
import re

import pytest

from evaluator.contract import Verdict
from portal.runs import actions, matrix
from portal.runs.models import Run
from problems import registry
from tests.portal.runs.rows import add, end, line, make_run

pytestmark = pytest.mark.django_db
PROBLEMS = len(registry.problems())


def judged(alice, node, model, *, profile="cpux2", **verdicts):
    """A published run with one program per problem named, and what it ended as."""
    run = make_run(alice, model=model, profile=profile)
    for problem, verdict in verdicts.items():
        attempt = add(run, line(problem)).results[0].attempt
        end(attempt, node, verdict=verdict)
    return actions.publish_run(run, by=alice, sources="public")


@pytest.fixture
def runs(alice, node):
    """Two runs of the model "GPT-5.5", of which the latter stands for it, and one of another."""
    old = judged(alice, node, "GPT-5.5", allgather=Verdict.PASSED)
    new = judged(alice, node, "GPT-5.5", allreduce=Verdict.PASSED, allgather=Verdict.WRONG_SHAPE)
    other = judged(alice, node, "other", allreduce=Verdict.DEADLOCK)
    return old, new, other


def text(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_one_run_of_each_model_stands_against_every_problem(client, runs):
    old, new, other = runs
    page = client.get("/models/").content.decode()
    for run, problem in ((new, "allreduce"), (new, "allgather"), (other, "allreduce")):
        assert f'href="/runs/{run.pk}/problems/{problem}/"' in page
    assert f"/runs/{old.pk}/problems/" not in page
    said = text(page)
    assert f"GPT-5.5 1 solves 1 of {PROBLEMS} problems, other 1 0 of {PROBLEMS}" in said
    assert "not distinguishable (exact McNemar test, p = 1)" in said
    assert "2 programs failed: 1 as tensor shape error, 1 as deadlock." in said or "1 as deadlock, 1 as tensor" in said
    assert f"{PROBLEMS - 1} of {PROBLEMS} problems are solved by none of the runs shown." in said
    chosen = client.get(f"/models/?run={old.pk}").content.decode()
    assert f"/runs/{old.pk}/problems/allgather/" in chosen
    assert f"/runs/{new.pk}/problems/" not in chosen


def test_groups_have_the_published_row_beside_ours(client, runs):
    page = text(client.get("/models/?rows=category").content.decode())
    row = page.split(" Collective Primitive ")[-1].split("All-reduce (sum)")[0]
    assert "paper: 8 problems" in row
    assert "1 of 8 12 %" in row  # ours, with its interval
    assert "paper: 3 solved, 3 faster" in row  # GPT-5.5, one sample
    run = text(client.get(f"/runs/{runs[1].pk}/").content.decode())
    assert "paper: 3 solved, 3 faster" in run
    assert "not measured here, and not comparable" in run


def test_every_problem_stands_in_its_group_and_counts_add_up(runs):
    columns = matrix.chosen(matrix.candidates(), [])
    for name, facet in matrix.GROUPINGS.items():
        total, *parts = matrix.groups(columns, facet)
        shown = [problem.slug for part in parts for problem, _ in part["rows"]]
        assert set(shown) == {problem.slug for problem in registry.problems()}
        if name != "communication":  # a problem may have several patterns
            assert sum(part["shares"][0]["solved"] for part in parts) == total["shares"][0]["solved"] == 1
            assert sum(part["shares"][0]["problems"] for part in parts) == total["shares"][0]["problems"] == PROBLEMS


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("rows=colour", 404, "Choose one of block, communication, category, source."),
        ("run=nonsense", 422, "Choose runs from the list on this page."),
        ("&".join(f"run={number}" for number in range(9)), 422, "Choose fewer runs."),
    ],
)
def test_what_no_matrix_has_is_refused_with_a_remedy(client, runs, query, status, words):
    answer = client.get(f"/models/?{query}")
    assert (answer.status_code, words in answer.content.decode()) == (status, True)


def test_incomplete_and_unpublished_runs_do_not_stand_for_a_model_that_has_a_complete_one(client, alice, runs):
    waiting = make_run(alice, model="other")
    add(waiting, line())
    Run.objects.filter(pk=waiting.pk).update(state="published", published_at=runs[2].published_at)
    draft = make_run(alice, model="draft")
    page = client.get("/models/").content.decode()
    assert f"/runs/{runs[2].pk}/problems/" in page
    assert f"/runs/{waiting.pk}/problems/" not in page
    assert str(draft.pk) not in page


@pytest.mark.parametrize(
    "address",
    [
        "/problems/allreduce/",
        "/problems/allreduce/leaderboard/?profile=cpux2",
        "/problems/?profile=cpux2",
        "/leaderboards/open/",
    ],
)
def test_what_a_model_solved_here_is_named_wherever_a_problem_is_open(client, runs, address):
    page = client.get(address).content.decode()
    assert f'<a href="/runs/{runs[1].pk}/problems/allreduce/">GPT-5.5 1</a>' in page
    row = page.split(f"/runs/{runs[1].pk}/problems/allreduce/")[1].split("</tr>")[0]
    assert "Be the first" not in row


def test_home_and_overview_count_what_models_solved_as_such(client, runs):
    assert f"solved here by people or models 2 of {PROBLEMS}" in text(client.get("/").content.decode())
    assert "by people 0, by models 2" in text(client.get("/leaderboards/").content.decode())


def test_definitions_can_be_switched(client, runs):
    page = text(client.get(f"/runs/{runs[1].pk}/?endings=published&faster=point").content.decode())
    assert "Tensor shape error 1" in page
    assert "Wrong shape or incomplete" not in page
    assert "as publications count" in page
    assert client.get(f"/runs/{runs[1].pk}/?faster=guess").status_code == 404


def test_the_matrix_and_both_definitions_are_there_as_data(client, runs):
    _, new, other = runs
    answer = client.get("/models/?rows=category&format=jsonl")
    rows = [json.loads(line) for line in answer.content.splitlines()]
    assert len(rows) == 2 * PROBLEMS
    found = {(row["run"], row["problem"]): (row["outcome"], row["passed"], row["samples"]) for row in rows}
    assert found[str(new.pk), "allreduce"] == ("passed", 1, 1)
    assert found[str(other.pk), "allreduce"] == ("deadlock", 0, 1)
    chosen = client.get(f"/models/?run={new.pk}&format=csv").content.decode().splitlines()
    assert (chosen[0].partition(",")[0], len(chosen)) == ("problem", PROBLEMS + 1)
    figures = client.get(f"/api/v1/runs/{new.pk}/").json()["figures"]
    assert figures["best_of_k"]["value"] == pytest.approx(1 / PROBLEMS)
    assert figures["published_classes"] == {"Correct": 1, "Tensor shape error": 1}
    # The interval begins at 1.0 and the speedup is 1.1.
    at_one = {name: {each["p"]: each["value"] for each in figures[name]}[1.0] for name in ("fast", "fast_by_point")}
    assert at_one == {"fast": 0, "fast_by_point": pytest.approx(1 / PROBLEMS)}
    board = client.get("/api/v1/leaderboards/models/?profile=cpux2&faster=point").json()
    assert (board["faster"], max(row["fast_p"]["value"] for row in board["rows"])) == ("point", at_one["fast_by_point"])
