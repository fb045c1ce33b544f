"""The list of problems in the orders that readers may choose."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.catalog import measurements
from portal.runs import actions as runs
from tests.portal.pages import scenes
from tests.portal.runs import rows

GPU = "h200x2-nomc"


def _listed(client, **query):
    return client.get("/problems/", {"profile": GPU, **query}).context["rows"]


def _first(client, **query):
    return _listed(client, **query)[0]["problem"].slug


def test_headroom_is_that_of_the_best_entry_else_of_the_reference(client, alice, local):
    before = {row["problem"].slug: row for row in _listed(client, sort="headroom")}
    known = [row["headroom"] for row in before.values() if row["headroom"]]
    assert known == sorted(known, reverse=True)
    assert len(known) > 60  # the references that were measured
    scenes.judged(alice, local, problem="gemm_allreduce", profile=GPU)
    after = {row["problem"].slug: row for row in _listed(client, sort="headroom")}
    points = client.get("/problems/gemm_allreduce/", {"profile": GPU}).context["roofline_points"]
    least_us = measurements.ceilings(GPU).empty_collective_us
    base, large = (point.best_us / max(point.work.floor.us, least_us) for point in points)
    assert after["gemm_allreduce"]["headroom"] == pytest.approx((base * large) ** 0.5)
    assert after["gemm_allreduce"]["bounds"]
    assert after["allreduce"]["headroom"] == before["allreduce"]["headroom"]


def test_by_entries_by_models_and_by_what_one_solved(client, alice, bob, local):
    scenes.judged(alice, local, problem="ring_attention", profile=GPU)
    scenes.judged(bob, local, problem="ring_attention", profile=GPU)
    scenes.judged(alice, local, problem="alltoall", profile=GPU)
    run = rows.make_run(bob, profile=GPU)
    rows.add(run, rows.line("gemm_allreduce"))
    rows.end(run.attempts.get(), local)
    runs.publish_run(run, by=bob, sources="private")
    assert _first(client, sort="entries") == "ring_attention"
    assert _first(client, sort="models") == "gemm_allreduce"
    assert _first(client, sort="mine") == "allreduce"  # nobody is signed in: the order of numbers
    client.force_login(alice)
    mine = [row["problem"].slug for row in _listed(client, sort="mine")][:2]
    assert set(mine) == {"ring_attention", "alltoall"}
    assert client.get("/problems/", {"profile": GPU}).content.decode().count("solved by you") == 2


def test_without_a_floor_there_is_no_headroom_and_an_unknown_order_is_refused(client, db):
    assert client.get("/problems/", {"profile": "cpux2", "sort": "headroom"}).context["sort"] == "number"
    assert client.get("/problems/", {"sort": "fame"}).status_code == 404


def test_more_entries_cost_no_more_queries(as_alice, alice, bob, local, django_assert_num_queries):
    scenes.judged(alice, local, problem="ring_attention", profile=GPU)
    _listed(as_alice)
    with CaptureQueriesContext(connection) as few:
        _listed(as_alice)
    for author, problem in ((bob, "ring_attention"), (alice, "alltoall"), (bob, "gemm_allreduce")):
        scenes.judged(author, local, problem=problem, profile=GPU)
    with django_assert_num_queries(len(few)):
        _listed(as_alice)
