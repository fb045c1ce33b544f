"""What anonymous readers see."""

import re

import pytest
from django.db import connection
from django.template import Context, Template
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from evaluator.contract import Verdict
from evaluator.judging.verdicts import FACTS
from problems import registry
from tests.portal.pages import scenes

PUBLIC = [
    "/",
    "/problems/",
    "/leaderboards/",
    "/nodes/",
    "/docs/",
    "/accounts/sign-in/",
    "/accounts/sign-up/",
    "/problems/allreduce/",
    "/problems/allreduce/leaderboard/",
    "/roofline/",
    "/taxonomy/",
]


@pytest.mark.django_db
@pytest.mark.parametrize("address", PUBLIC)
def test_public_pages_open_without_an_account(client, address):
    response = client.get(address)
    assert response.status_code == 200
    assert b'<main id="main"' in response.content


@pytest.mark.django_db
@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems()])
def test_every_problem_has_its_page(client, slug):
    page = client.get(reverse("explorer:problem", args=[slug])).content.decode()
    problem = registry.get(slug)
    assert all(f"<code>{argument.name}</code>" in page for argument in problem.arguments)
    assert "The floor is the largest of three times" in page
    legal = page.split('id="legal"')[1].split("</section>")[0]
    assert legal.count("<li>") == len(problem.invariants) + len(problem.regimes), "what is fixed, and what checks draw"
    assert all(f"<code>{regime.name}</code>" in legal for regime in problem.regimes)


@pytest.mark.django_db
def test_the_statement_shows_its_mathematics_as_mathml(client):
    page = client.get("/problems/allreduce/").content.decode()
    assert "<math" in page
    assert "$" not in page.split('id="statement"')[1].split("</section>")[0]


@pytest.mark.django_db
def test_facets_narrow_the_list_and_say_how_many_are_left(client):
    page = client.get("/problems/", {"communication": "all_gather", "block": "primitive"}).content.decode()
    assert "All-gather of one matrix" in page
    assert "GEMM + all-reduce" not in page


@pytest.mark.django_db
def test_search_that_finds_nothing_offers_the_way_back(client):
    page = client.get("/problems/", {"q": "no such words"}).content.decode()
    assert "0 of " in page
    assert "Show every problem" in page


@pytest.mark.django_db
def test_an_unknown_problem_is_a_404_that_suggests_the_nearest(client):
    response = client.get("/problems/allreduc/")
    assert response.status_code == 404
    assert b"allreduce" in response.content


@pytest.mark.django_db
def test_an_unknown_address_gets_the_designed_page(client):
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert b"There is nothing at this address" in response.content


@pytest.mark.django_db
def test_the_board_lists_entries_with_their_intervals(client, alice, bob, local):
    scenes.judged(alice, local, score=1.25, visibility="public")
    scenes.judged(bob, local, score=1.4)
    page = client.get("/problems/allreduce/leaderboard/").content.decode()
    # A practice board names no multiplier: it shows which way, and both times of each evaluation.
    assert "about as fast" in page
    assert "1.21 to 1.28" in page
    assert "reference 100 µs" in page
    assert "A practice board" in page
    assert page.count("source private") == 1


@pytest.mark.django_db
@pytest.mark.parametrize("query", [{"profile": "abacus"}, {"backend": "fortran"}])
def test_a_board_that_does_not_exist_is_a_404_with_the_known_ones(client, query):
    response = client.get("/problems/allreduce/leaderboard/", query)
    assert response.status_code == 404
    assert b"Choose one of" in response.content


@pytest.mark.django_db
def test_home_says_that_the_published_figures_were_not_measured_here(client):
    page = client.get("/").content.decode()
    assert "28 / 87" in page
    assert ">Published elsewhere</a>, not measured here" in page


@pytest.mark.django_db
def test_the_docs_explain_every_verdict(client):
    page = client.get("/docs/").content.decode()
    assert all(f'id="{verdict}"' in page for verdict in FACTS)


@pytest.mark.django_db
def test_the_node_page_shows_slots_and_queue(client, alice, local):
    scenes.submit(alice)
    page = client.get("/nodes/").content.decode()
    assert "Online" in page


@pytest.mark.django_db
def test_health_answers_in_plain_words(client):
    assert client.get("/healthz").content == b"ok\n"
    assert client.get("/readyz").content == b"ready\n"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/problems/",
        "/problems/allreduce/",
        "/leaderboards/",
        "/problems/allreduce/leaderboard/",
    ],
)
def test_the_number_of_queries_does_not_grow_with_the_entries(client, local, address, django_assert_num_queries):
    scenes.judged(scenes.person("first"), local)
    with CaptureQueriesContext(connection) as few:
        client.get(address)
    for name in ("second", "third"):
        scenes.judged(scenes.person(name), local)
    with django_assert_num_queries(len(few)):
        client.get(address)


@pytest.mark.django_db
@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.WRONG_RESULT])
def test_a_public_submission_is_readable_without_an_account(client, alice, local, verdict):
    submission = scenes.judged(alice, local, verdict=verdict, visibility="public")
    page = client.get(reverse("submissions:detail", args=[submission.pk])).content.decode()
    assert FACTS[verdict].title in page
    # A pass without a floor is not sent to compare with one.
    advice = "Compare your times with the reference" if verdict is Verdict.PASSED else FACTS[verdict].advice
    assert advice in page
    assert "Judge again" not in page


def test_the_node_page_costs_a_fixed_number_of_queries(client, local, django_assert_num_queries):
    with CaptureQueriesContext(connection) as few:
        client.get("/nodes/")
    for name in ("second", "third"):
        scenes.node(name=name)
    with django_assert_num_queries(len(few)):
        client.get("/nodes/")


def test_a_problem_says_how_fast_its_published_reference_ran_beside_ours(client, db):
    text = " ".join(client.get("/problems/gather/").content.decode().split())
    assert "ran at <strong>0.81 times the speed of this one</strong> (0.80 to 0.82)" in text
    assert "on h200x2-nomc on 2026-11-22, with torch 2.11.0+cu130" in text
    assert "They were timed by the earlier rule" in text
    assert "published benchmark's own reference" not in client.get("/problems/grad_acc_loss/").content.decode()


def test_the_docs_say_and_show_what_is_timed(client, db):
    page = client.get("/docs/").content.decode()
    assert 'id="timed"' in page
    title, description = (re.search(rf'<{tag} id="clock-[a-z]+">([^<]+)<', page)[1] for tag in ("title", "desc"))
    assert "What is timed" in title
    assert "gates" in description


def test_an_icon_is_as_high_as_its_text_wherever_it_stands():
    svg = Template("{% load pkb %}{% icon 'warning' %}").render(Context())
    assert re.search(r'<svg [^>]*width="1em" height="1em"', svg)
