"""The head of a problem page: what is known of its times, and what the reader has tried."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from evaluator.contract import Delivery, Verdict
from portal.runs import actions as runs
from portal.submissions import actions
from tests.portal.pages import scenes
from tests.portal.runs import rows

GPU = "h200x2-nomc"
PAGE = "/problems/gemm_allreduce/"


def _marks(figure, kind):
    layer = scenes.layer(figure, kind)
    return layer.points if layer is not None else ()


def test_floor_leader_and_reference_stand_on_one_axis(client, alice, local):
    scenes.judged(alice, local, problem="gemm_allreduce", profile=GPU, visibility="public")
    times = client.get(PAGE).context["times"]
    kinds = [line["kind"] for line in times["lines"]]
    assert kinds == ["floor", "best entry", "reference"]
    assert [line["name"] for line in times["lines"]][1] == "alice"
    for kind in kinds:
        assert {mark.y for mark in _marks(times["figure"], kind)} == {0.0, 1.0}, kind
    floor, best, _ = times["lines"]
    assert best["columns"][0][1] == pytest.approx(best["columns"][0][0] / floor["columns"][0][0])


def test_each_model_stands_once_with_its_best(client, alice, local):
    for version, scores in (("1", (1.1, 1.6)), ("2", (1.3,))):
        run = rows.make_run(alice, profile=GPU, mode="best_of_k", k=2, version=version)
        rows.add(run, *(rows.line("gemm_allreduce", sample=n) for n in range(len(scores))))
        for attempt, score in zip(run.attempts.order_by("sample"), scores, strict=True):
            evaluation = scenes.lease(attempt.submission, local)
            judgement = scenes.report(evaluation, score=score)
            actions.record_delivery(Delivery(lease=evaluation.lease, node=local.name, report=judgement), timezone.now())
        runs.publish_run(run, by=alice, sources="private")
    times = client.get(PAGE).context["times"]
    lines = [line for line in times["lines"] if line["kind"] == "best of a model"]
    found = [(line["name"], [us for us, _ in line["columns"]]) for line in lines]
    assert found == [("writer 1", [80.0, 80.0]), ("writer 2", [80.0, 80.0])]
    assert len(_marks(times["figure"], "best of a model")) == 4


def test_own_attempts_stand_beside_their_curve_and_nobody_elses(client, alice, bob, local):
    mine = [scenes.judged(alice, local, problem="gemm_allreduce", profile=GPU, score=score) for score in (1.1, 1.4)]
    mine.append(scenes.judged(alice, local, problem="gemm_allreduce", profile=GPU, verdict=Verdict.WRONG_RESULT))
    scenes.judged(bob, local, problem="gemm_allreduce", profile=GPU, score=1.9)
    assert "own" not in client.get(PAGE).context
    client.force_login(alice)
    shown = client.get(PAGE).context
    assert [each.pk for each in shown["own"]] == [each.pk for each in reversed(mine)]
    scores = [point.y for point in scenes.layer(shown["own_curve"], "one attempt, with its interval").points]
    assert scores == pytest.approx([1.1, 1.4], abs=0.02)


def test_a_profile_that_does_not_judge_the_problem_is_refused(client, db):
    page = client.get(PAGE, {"profile": "h300x2"})
    assert page.status_code == 404
    assert "The profile &#x27;h300x2&#x27; does not judge this problem." in page.content.decode()


def test_more_entries_and_models_cost_no_more_queries(as_alice, alice, bob, local, django_assert_num_queries):
    as_alice.get(PAGE)
    with CaptureQueriesContext(connection) as few:
        as_alice.get(PAGE)
    for author in (alice, bob, alice):
        scenes.judged(author, local, problem="gemm_allreduce", profile=GPU, visibility="public")
    as_alice.get(PAGE)
    with CaptureQueriesContext(connection) as some:
        as_alice.get(PAGE)
    for author in (scenes.person("carol"), alice, bob):
        scenes.judged(author, local, problem="gemm_allreduce", profile=GPU, visibility="public")
    with django_assert_num_queries(len(some)):
        as_alice.get(PAGE)
    assert len(some) <= len(few) + 2
