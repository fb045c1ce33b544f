"""The taxonomy browser: cells that lead to their problems, quantities, facets, patterns and a layer's collectives."""

import re
from html import unescape

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evaluator.contract import Verdict
from portal.catalog import facets
from portal.catalog.facets import pattern
from portal.explorer import taxonomy
from portal.explorer.taxonomy import Layer
from portal.ranking.models import Standing
from portal.runs import actions as run_actions
from problems import registry
from problems.spec.taxonomy import Communication
from tests.portal.pages import scenes
from tests.portal.runs.rows import add, end, line, make_run

GPU = "h200x8-nomc"
pytestmark = pytest.mark.django_db


def _cells(page):
    """Address and spoken text of every cell that leads somewhere."""
    links = re.findall(
        r'<td class="cell shade-(\d)"><a href="([^"]*)"><span class="visually-hidden">(.*?)</span><b[^>]*>([^<]*)</b>',
        page,
    )
    return [(int(shade), unescape(address), unescape(spoken), text) for shade, address, spoken, text in links]


def _page(client, **query):
    return client.get("/taxonomy/", query).content.decode()


def test_every_problem_stands_in_a_cell_and_every_cell_opens_as_many_as_it_says(client):
    cells = _cells(_page(client))
    assert cells[-1][3] == str(len(registry.problems()))
    for _, address, spoken, _text in cells:
        said = int(re.search(r": (\d+) problem", spoken)[1])
        assert f"{said} of {len(registry.problems())} problem" in client.get(address).content.decode(), spoken


def test_problems_without_parallelism_have_a_column(client):
    (cell,) = [cell for cell in _cells(_page(client)) if cell[2].startswith("Collective, no parallelism")]
    assert "parallelism=none" in cell[1]
    assert "All-reduce (sum) of one matrix" in client.get(cell[1]).content.decode()


@pytest.mark.parametrize("facet", ["communication", "stage", "domain", "origin"])
def test_a_facet_narrows_the_matrix_and_the_links_keep_it(client, facet):
    kind = next(kind for kind in facets.FACETS if kind.name == facet)
    option = facets.options(registry.problems(), kind, chosen={})[0]
    page = _page(client, **{facet: option["value"]})
    cells = _cells(page)
    assert cells[-1][3] == str(option["count"])
    assert all(f"{facet}=" in address for _, address, _, _ in cells)


def test_a_primitive_counts_the_boards_that_are_led_with_it(client, alice, local):
    scenes.judged(alice, local, problem="gemm_allreduce", profile=GPU)
    Standing.objects.update(primitives=["tma", "nccl_device"])
    for primitive, solved in (("tma", 1), ("nccl", 0)):
        assert f", {solved} solved" in _cells(_page(client, primitive=primitive))[-1][2]
    assert client.get("/taxonomy/", {"primitive": "dma"}).status_code == 404


def test_solved_and_speedup_follow_the_boards(client, alice, bob, local):
    scenes.judged(alice, local, problem="gemm_allreduce", profile=GPU, score=1.1)
    scenes.judged(bob, local, problem="gemm_allreduce", profile=GPU, score=1.6)
    scenes.judged(bob, local)
    solved = _cells(_page(client, quantity="solved"))[-1]
    assert re.search(r" 2 solved, best speedup <strong>1.60.</strong> by bob$", solved[2])
    assert _cells(_page(client, quantity="speedup"))[-1][3] == "1.60×"  # noqa: RUF001 - the multiplication sign
    assert ", 1 solved" in _cells(_page(client, profile=GPU))[-1][2]


def test_practice_boards_have_no_speedup(client, alice, local):
    scenes.judged(alice, local)
    page = _page(client, quantity="speedup", profile="cpux2")
    assert "Practice boards do not order by speed" in page
    assert "best speedup" not in page


def test_shades_come_with_their_numbers(client):
    page = _page(client)
    assert all(shade > 0 and text for shade, _, _, text in _cells(page))
    assert all(words in page for words in ("2 or 3", "4 to 6", "7 or more"))


@pytest.mark.parametrize("query", [{"quantity": "x"}, {"profile": "abacus"}, {"layer": "onion"}])
def test_an_unknown_choice_is_a_404_with_the_known_ones(client, query):
    response = client.get("/taxonomy/", query)
    assert response.status_code == 404
    assert b"Choose one of" in response.content


def test_facets_that_leave_nothing_offer_the_way_back(client):
    assert "Show every problem" in _page(client, origin="nobody")


@pytest.mark.parametrize("communication", Communication)
def test_every_pattern_has_its_picture_and_its_problems(client, communication):
    page = _page(client)
    assert f'href="/problems/?communication={communication}"' in page
    assert pattern(communication)["spoken"] in page


def test_an_all_to_all_keeps_every_piece_and_a_reduction_sums_them():
    for communication in (Communication.ALL_TO_ALL, Communication.ALL_TO_ALL_V):
        names = [piece["text"] for piece in pattern(communication)["pieces"]]
        assert sorted(names[:16]) == sorted(names[16:])
    assert pattern(Communication.REDUCE_SCATTER)["spoken"].endswith("rank 3: Σ3.")


def test_every_problem_of_a_layer_stands_on_an_edge_of_a_drawing():
    every = registry.problems()
    blocks = {part.block for layer in Layer for lane in taxonomy.lanes(layer) for part in lane.parts}
    drawn = {
        problem.slug for layer in Layer for edge in taxonomy.edges(layer).values() for problem in edge.problems(every)
    }
    assert {problem.slug for problem in every if problem.block in blocks} <= drawn
    outside = sum(count for _, count in taxonomy.other_blocks(every))
    assert outside == sum(problem.block not in blocks for problem in every)


@pytest.mark.parametrize("layer", Layer)
def test_every_collective_between_two_parts_leads_to_as_many_problems_as_it_says(client, layer):
    page = _page(client, layer=layer)
    said = set(re.findall(r'href="#(edge-\w+)">.*?<span class="sub">(\d+) problem', page))
    groups = dict(re.findall(r'<tbody id="(edge-\w+)">(.*?)</tbody>', page, re.DOTALL))
    assert dict(said) == {name: str(rows.count('href="/problems/')) for name, rows in groups.items()}
    assert {("edge-to_attention", "2"), ("edge-from_attention", "1")} <= said


def test_an_edge_names_who_leads_its_problems_and_which_models_solve_them(client, alice, bob, local):
    scenes.judged(alice, local, problem="gemm_allreduce", profile=GPU, score=1.6)
    for name, verdict in (("writer", Verdict.PASSED), ("loser", Verdict.DEADLOCK)):
        run = make_run(bob, model=name, profile="cpux2")
        end(add(run, line("gemm_allreduce")).results[0].attempt, local, verdict=verdict)
        run_actions.publish_run(run, by=bob, sources="public")
    (rows,) = re.findall(r'<tbody id="edge-mlp_sum">(.*?)</tbody>', _page(client), re.DOTALL)
    assert f'<a href="/problems/gemm_allreduce/leaderboard/?profile={GPU}">alice</a> <strong>1.60' in rows
    assert (rows.count(">writer 1</a>"), rows.count("loser")) == (1, 0)
    (rows,) = re.findall(r'<tbody id="edge-mlp_sum">(.*?)</tbody>', _page(client, profile=GPU), re.DOTALL)
    assert "writer" not in rows


def test_a_drawing_that_names_an_unknown_edge_is_refused_by_name():
    lane = {"title": "Wrong", "parts": [{"block": "norm", "how": "whole", "after": ["nowhere"]}] * 4}
    with pytest.raises(msgspec.ValidationError, match="lane Wrong: there are no edges \\['nowhere'\\]"):
        msgspec.convert({"edges": {}, "dense": [lane], "moe": [], "any": []}, taxonomy.Drawing)


@pytest.mark.parametrize("address", ["/taxonomy/", "/taxonomy/?quantity=speedup&origin=VeOmni"])
def test_the_number_of_queries_does_not_grow_with_the_entries(client, local, address, django_assert_num_queries):
    scenes.judged(scenes.person("first"), local, profile=GPU)
    with CaptureQueriesContext(connection) as few:
        client.get(address)
    for name, problem in (("second", "allreduce"), ("third", "gemm_allreduce")):
        scenes.judged(scenes.person(name), local, profile=GPU, problem=problem)
    with django_assert_num_queries(len(few)):
        client.get(address)


def test_few_values_are_links_and_the_lists_beside_them_keep_the_choice(client):
    page = _page(client, stage="training", domain="vision")
    (inference,) = re.findall(r'class="chip" href="([^"]*stage=inference[^"]*)"', unescape(page))
    assert "domain=vision" in inference
    assert '<input type="hidden" name="stage" value="training">' in page
    assert "<select" in page
    assert 'name="stage"><option' not in page
