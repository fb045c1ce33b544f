"""Public data: anyone may read it, without a token."""

import pytest
from django.utils import timezone

from evaluator.contract import SCORE_RULE
from portal.catalog.models import ProblemSwitch
from portal.submissions import actions
from portal.submissions.models import Evaluation, State
from problems import registry
from problems.spec.schema import ArgumentKind
from tests.portal.api.problem import assert_problem
from tests.portal.factories import delivery_of, evaluation_of, submit


def test_the_list_has_every_problem_in_order(anonymous):
    body = anonymous.get("/api/v1/problems/").json()
    assert [entry["slug"] for entry in body] == [problem.slug for problem in registry.problems()]
    assert body[0]["revision"] == registry.revision("allreduce")
    assert body[0]["is_open"] is True
    assert body[0]["url"] == "http://testserver/api/v1/problems/allreduce/"


def test_a_closed_problem_says_so(anonymous):
    ProblemSwitch.objects.create(slug="allreduce", is_open=False)
    assert anonymous.get("/api/v1/problems/allreduce/").json()["is_open"] is False


def test_a_problem_has_all_that_a_solver_needs(anonymous):
    body = anonymous.get("/api/v1/problems/allreduce/").json()
    problem = registry.get("allreduce")
    assert body["signature"] == problem.signature
    assert body["arguments"][0]["shape"] == ["M", "N"]
    assert body["outputs"][0]["tolerance"]["atol"] == problem.outputs[0].tolerance.atol
    assert body["reference"] == registry.reference_source("allreduce")
    assert "## Legal inputs" in body["statement"]
    assert body["invariants"] == list(problem.invariants)
    assert {"name": "zero_values", "described": "all values are zero"} in body["regimes"]
    base = next(size for size in body["sizes"] if (size["name"], size["world_size"]) == ("base", 8))
    assert base["dims"] == {"M": 1024, "N": 1024}
    assert base["cost"]["wire_bytes"] == 2 * 7 / 8 * 1024 * 1024 * 2


def test_hints_are_in_a_problem_only_where_they_are_asked_for(anonymous):
    problem = registry.get("moe_ep_wide")
    address = f"/api/v1/problems/{problem.slug}/"
    bare, told = anonymous.get(address).json(), anonymous.get(f"{address}?hints=true").json()
    prompt = anonymous.get(f"{address}prompt/?profile=cpux2").json()["text"]
    assert bare["statement"] in prompt
    assert "What a fast kernel does" not in bare["statement"]
    assert told["statement"] == registry.statement(problem.slug).strip()
    assert (bare["notes"], told["notes"]) == ([], list(problem.notes))
    drawn = [argument.values for argument in problem.arguments if argument.kind is ArgumentKind.TENSOR]
    assert drawn
    assert [entry["values"] for entry in told["arguments"]] == [argument.values for argument in problem.arguments]
    assert [values for values in drawn if values in str(bare["arguments"])] == []
    assert_problem(anonymous.get(f"{address}?hints=maybe"), status=422, field="hints")


@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems()])
def test_every_problem_can_be_read(anonymous, slug):
    assert anonymous.get(f"/api/v1/problems/{slug}/").status_code == 200


def test_an_unknown_problem_is_404_with_a_near_name(anonymous):
    body = assert_problem(anonymous.get("/api/v1/problems/allredcue/"), status=404, field="problem")
    assert "allreduce" in body["detail"]


@pytest.mark.usefixtures("node")
def test_profiles_say_how_many_slots_take_work(anonymous):
    body = {entry["name"]: entry for entry in anonymous.get("/api/v1/profiles/").json()}
    assert body["cpux2"]["slots_online"] == 1
    assert body["cpux2"]["backends"] == ["pytorch"]
    assert body["h200x8-nomc"]["slots_online"] == 0
    assert body["h200x8-nomc"]["multicast"] is False


@pytest.mark.usefixtures("node")
def test_nodes_are_shown_without_their_keys(anonymous):
    (shown,) = anonymous.get("/api/v1/nodes/").json()
    assert (shown["name"], shown["is_online"]) == ("alpha", True)
    assert shown["slots"] == [{"index": 0, "profile": "cpux2", "state": "free", "note": ""}]
    assert not [name for name in shown if "key" in name]


def _judged(author, node, **report):
    """An accepted evaluation of a new submission, recorded as a node's delivery is."""
    evaluation = evaluation_of(submit(author))
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.RUNNING, lease=f"lease-{evaluation.pk}", node=node, slot_index=0
    )
    actions.record_delivery(delivery_of(evaluation, **report), now=timezone.now())
    return evaluation


def test_the_leaderboard_shows_who_passed(anonymous, alice, bob, node):
    first, second = _judged(alice, node), _judged(bob, node)
    body = anonymous.get("/api/v1/problems/allreduce/leaderboard/?profile=cpux2").json()
    assert body["revision"] == registry.revision("allreduce")
    assert body["is_ranked_by_speed"] is False
    assert [(entry["author"], entry["evaluation_id"]) for entry in body["entries"]] == [
        ("alice", str(first.pk)),
        ("bob", str(second.pk)),
    ]
    filtered = anonymous.get("/api/v1/problems/allreduce/leaderboard/?profile=cpux2&backend=cuda").json()
    assert filtered["entries"] == []


def test_a_long_leaderboard_comes_in_parts_that_lead_on_and_back(anonymous, alice, bob, node):
    for author in (alice, bob):
        _judged(author, node)
    address = "/api/v1/problems/allreduce/leaderboard/?profile=cpux2"
    first = anonymous.get(f"{address}&page_size=1").json()
    assert (first["total"], first["previous"]) == (2, None)
    second = anonymous.get(first["next"]).json()
    assert [entry["author"] for page in (first, second) for entry in page["entries"]] == ["alice", "bob"]
    assert second["next"] is None
    assert anonymous.get(second["previous"]).json()["entries"] == first["entries"]
    assert anonymous.get(f"{address}&primitive=tma").json()["entries"] == []
    assert_problem(anonymous.get(f"{address}&after=nonsense"), status=404, field="after")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "profile"),
        ("?profile=cpux2&primitive=dma", "primitive"),
        ("?profile=cpux2&page_size=0", "page_size"),
        ("?profile=h900x8", "profile"),
        ("?profile=cpux2&backend=opencl", "backend"),
        ("?profil=cpux2", "profil"),
    ],
)
def test_a_board_needs_a_known_profile_and_backend(anonymous, query, field):
    assert_problem(anonymous.get(f"/api/v1/problems/allreduce/leaderboard/{query}"), status=422, field=field)


def test_me_shows_the_token_and_the_share_of_the_queue(alice, alices):
    submit(alice)
    body = alices.get("/api/v1/me/").json()
    assert body["username"] == "alice"
    assert body["token"]["scopes"] == ["read", "submit"]
    assert (body["queued"], body["queued_limit"]) == (1, 20)


def test_the_number_of_queries_does_not_grow_with_the_board(anonymous, alice, bob, node, django_assert_max_num_queries):
    _judged(alice, node)
    _judged(bob, node)
    with django_assert_max_num_queries(4):
        anonymous.get("/api/v1/problems/allreduce/leaderboard/?profile=cpux2")


def test_entries_by_another_rule_are_not_on_the_board(anonymous, alice, bob, node):
    evaluation = _judged(alice, node, rule=SCORE_RULE - 1)
    _judged(bob, node)
    body = anonymous.get("/api/v1/problems/allreduce/leaderboard/?profile=cpux2").json()
    assert (body["score_rule"], body["total"]) == (SCORE_RULE, 1)
    assert [row["author"] for row in body["entries"]] == ["bob"]
    address = f"/api/v1/submissions/{evaluation.submission_id}/evaluations/{evaluation.pk}/"
    actions.set_visibility(evaluation.submission, visibility="public", by=alice)
    assert anonymous.get(address).json()["score_rule"] == SCORE_RULE - 1
