"""What nodes say over HTTPS: who is believed what, the receipt, and the answer to everything that is refused."""

import gzip
import hashlib
from datetime import timedelta

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evaluator.contract import (
    MOST_BYTES,
    MOST_COMPRESSED_BYTES,
    MOST_STATUS_BYTES,
    SCHEMA_VERSION,
    VERSION,
    Backend,
    Mode,
    NodeStatus,
    Progress,
    Receipt,
    SandboxLevel,
    SlotState,
    SlotStatus,
    Stage,
    Verdict,
)
from portal.dispatcher.leases import revoke, sweep
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.submissions import actions
from portal.submissions.lifecycle import new_lease
from portal.submissions.models import Evaluation, Report, State
from tests.portal.api.problem import assert_problem
from tests.portal.conftest import NODE_KEY
from tests.portal.factories import delivery_of
from tests.portal.telling import post, tell

pytestmark = pytest.mark.django_db


@pytest.fixture
def beta():
    """Another node's key."""
    return nodes.register_node("beta")


def status_of(name="alpha", **changes):
    fields = {
        "node": name,
        "slots": (SlotStatus(index=0, profile="cpux2", state=SlotState.FREE),),
        "sandbox": SandboxLevel.FULL,
        "backends": (Backend.PYTORCH,),
        "revisions": {"allreduce": "0123456789abcdef"},
    }
    return NodeStatus(**(fields | changes))


def assert_untouched(evaluation):
    evaluation.refresh_from_db()
    assert evaluation.state == State.LEASED
    assert not Report.objects.exists()


def receipt_of(answer):
    assert answer.status_code == 200, answer.content
    return Receipt.from_json(answer.content).sha256


# What is taken


def test_the_receipt_names_the_report_that_is_recorded(leased):
    delivery = delivery_of(leased)
    answer = tell(delivery, key=NODE_KEY, node="alpha")
    assert receipt_of(answer) == hashlib.sha256(delivery.to_json().encode()).hexdigest()
    leased.refresh_from_db()
    assert (leased.state, Report.objects.count()) == (State.FINISHED, 1)


def test_a_report_that_comes_again_changes_nothing_and_has_the_same_answer(leased):
    """The answer to the first may have been lost."""
    delivery = delivery_of(leased)
    first, second = (tell(delivery, key=NODE_KEY, node="alpha") for _ in range(2))
    assert receipt_of(first) == receipt_of(second)
    assert Report.objects.count() == 1


def test_work_that_is_given_back_twice_is_queued_once(leased):
    returned = msgspec.structs.replace(delivery_of(leased, verdict=Verdict.JUDGE_FAILURE), is_returned=True)
    answers = [receipt_of(tell(returned, key=NODE_KEY, node="alpha")) for _ in range(2)]
    assert answers[0] == answers[1]
    leased.refresh_from_db()
    assert (leased.state, leased.attempt) == (State.QUEUED, 1)


@pytest.mark.parametrize("end", ["cancelled", "swept"])
def test_a_report_after_its_lease_has_ended_has_a_receipt_and_changes_nothing(leased, alice, later, settings, end):
    late = delivery_of(leased)
    if end == "cancelled":
        actions.cancel_evaluation(leased, by=alice)
    else:
        Node.objects.update(seen_at=later(settings.LEASE_SECONDS + 2))
        assert sweep(later(settings.LEASE_SECONDS + 2)) == 1
    before = Evaluation.objects.values().get()
    receipt_of(tell(late, key=NODE_KEY, node="alpha"))
    assert Evaluation.objects.values().get() == before
    assert not Report.objects.exists()


def test_progress_starts_the_clock(leased):
    progress = Progress(evaluation_id=str(leased.pk), lease=leased.lease, stage=Stage.TIMING)
    for _ in range(2):
        receipt_of(tell(progress, key=NODE_KEY, node="alpha"))
    leased.refresh_from_db()
    assert (leased.state, leased.stage) == (State.RUNNING, "timing")


def test_a_heartbeat_without_news_costs_six_statements(node, now):
    tell(status_of(), key=NODE_KEY, node="alpha")
    with CaptureQueriesContext(
        connection,
    ) as asked:
        receipt_of(tell(status_of(), key=NODE_KEY, node="alpha"))
    # The key, the node's row, its slots, and what begins and ends a transaction.
    assert len(asked) <= 6, [query["sql"] for query in asked]


def test_a_body_may_come_as_it_is(leased):
    text = delivery_of(leased).to_json().encode()
    receipt_of(post("report", text, key=NODE_KEY, node="alpha", **{"Content-Encoding": "identity"}))
    assert Report.objects.get().evaluation == leased


def test_a_report_with_nul_in_what_a_program_printed_is_stored(leased):
    """PostgreSQL stores no NUL."""
    delivery = msgspec.structs.replace(delivery_of(leased), error_log="a\0b")
    receipt_of(tell(delivery, key=NODE_KEY, node="alpha"))
    assert Report.objects.get().error_log == "a\ufffdb"


def test_operators_alone_are_shown_which_messages_a_node_keeps_as_refused(node, client, operator, settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    tell(status_of(refusals=("spool/12.refused: no such <lease>",)), key=NODE_KEY, node="alpha")
    assert "no such" not in client.get("/nodes/").content.decode()
    client.force_login(operator)
    assert "no such &lt;lease&gt;" in client.get("/nodes/").content.decode()


# Whose messages


@pytest.mark.parametrize("kind", ["heartbeat", "progress", "report"])
@pytest.mark.parametrize(("name", "key"), [("alpha", "wrong"), ("nobody", NODE_KEY), ("alpha", "")])
def test_a_wrong_key_is_refused_before_anything_is_read(leased, kind, name, key):
    answer = post(kind, b"no gzip", key=key, node=name)
    assert_problem(answer, status=401)
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert_untouched(leased)


def test_a_persons_token_is_no_nodes_key(leased, alices):
    answer = alices.post("/api/v1/nodes/alpha/report/", delivery_of(leased).to_json(), content_type="application/json")
    assert_problem(answer, status=401)
    assert_untouched(leased)


def test_another_nodes_lease_is_refused(leased, beta):
    delivery = delivery_of(leased, low=99.0)
    assert_problem(tell(delivery, key=beta, node="beta"), status=422, field="node")
    own_name = msgspec.structs.replace(delivery, node="beta")
    assert_problem(tell(own_name, key=beta, node="beta"), status=403, field="lease")
    progress = Progress(evaluation_id=str(leased.pk), lease=leased.lease, stage=Stage.TIMING)
    assert_problem(tell(progress, key=beta, node="beta"), status=403, field="lease")
    assert_untouched(leased)


def test_a_forged_name_is_refused(leased, beta, now):
    assert_problem(tell(delivery_of(leased), key=beta, node="alpha"), status=401)
    assert_problem(tell(status_of("alpha", slots=()), key=beta, node="beta"), status=422, field="node")
    assert Node.objects.get(name="alpha").slots.exists()
    assert Node.objects.get(name="beta").seen_at is None


def test_a_guessed_lease_is_refused_and_so_is_one_of_another_evaluation(leased, beta):
    other = "5c5a3e5e-0000-4000-8000-000000000000"
    for lease in ("guessed", new_lease(other, "alpha"), new_lease(leased.pk, "beta")):
        answer = tell(delivery_of(leased, lease=lease), key=NODE_KEY, node="alpha")
        assert_problem(answer, status=409, field="lease")
    strange = msgspec.structs.replace(delivery_of(leased).report, evaluation_id="no evaluation")
    answer = tell(msgspec.structs.replace(delivery_of(leased), report=strange), key=NODE_KEY, node="alpha")
    assert_problem(answer, status=409, field="lease")
    assert_untouched(leased)


@pytest.mark.parametrize(
    "changes",
    [
        {"profile": "h200x8-nomc"},
        {"problem": "allgather"},
        {"source_digest": "0" * 64},
        {"revision": "0"},
        {"mode": Mode.BENCHMARK},
        {"backend": Backend.CUDA},
        {"world_size": 8},
    ],
)
def test_a_report_on_something_else_than_was_sent_is_refused(leased, changes):
    delivery = delivery_of(leased)
    forged = msgspec.structs.replace(delivery, report=msgspec.structs.replace(delivery.report, **changes))
    assert_problem(tell(forged, key=NODE_KEY, node="alpha"), status=422, field="report")
    assert_untouched(leased)


def test_another_nodes_slot_cannot_be_taken_or_kept(leased, beta, later):
    """A heartbeat speaks of the slots of its own node alone, and keeps no other node's lease."""
    until = leased.lease_expires_at
    status = status_of("beta", running=(str(leased.pk),), built=(leased.lease,))
    receipt_of(tell(status, key=beta, node="beta"))
    assert_untouched(leased)
    assert leased.lease_expires_at == until
    assert list(Node.objects.get(name="alpha").slots.values_list("state", flat=True)) == ["busy"]


def test_a_new_key_leaves_no_gap_and_ends_the_old_one_with_its_first_use(node):
    new = nodes.replace_key("alpha")
    receipt_of(tell(status_of(), key=NODE_KEY, node="alpha"))
    receipt_of(tell(status_of(), key=new, node="alpha"))
    assert_problem(tell(status_of(), key=NODE_KEY, node="alpha"), status=401)
    newest = nodes.replace_key("alpha", at_once=True)
    assert_problem(tell(status_of(), key=new, node="alpha"), status=401)
    receipt_of(tell(status_of(), key=newest, node="alpha"))
    assert newest not in str(Node.objects.values())


def test_a_revoked_node_is_told_so_and_believed_nothing(leased, now):
    late = delivery_of(leased)
    assert revoke("alpha", now=now) == 1
    for message in (late, status_of()):
        answer = assert_problem(tell(message, key=NODE_KEY, node="alpha"), status=410)
        assert "was revoked" in answer["detail"]
    assert_problem(tell(late, key="guessed", node="alpha"), status=401)
    assert Node.objects.get().seen_at < now + timedelta(seconds=1)
    assert not Node.objects.get().slots.exists()
    assert not Report.objects.exists()


# What is no message


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", ""),
        ("{not json", ""),
        ("[]", ""),
        ('"properties"', ""),
        ("{}", "lease"),
        ('{"lease": "l", "node": "alpha", "report": 5}', "report"),
        ('{"lease": "l", "node": "alpha", "report": {"schema_version": 2, "problem": []}}', "report.problem"),
        ('{"lease": "l", "node": "alpha", "more": 1}', "report"),
    ],
)  # fmt: skip
def test_what_the_contract_does_not_know_is_refused_by_its_field(leased, text, field):
    answer = post("report", gzip.compress(text.encode()), key=NODE_KEY, node="alpha")
    body = assert_problem(answer, status=422, field=field)
    assert f"site (version {VERSION}) and node to the same version" in body["detail"]
    assert_untouched(leased)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"no gzip", 400),
        (gzip.compress(b"{}" * 10_000)[:-20], 400),
        (gzip.compress(b"{}") + b"more", 400),
        (gzip.compress(b"\xff\xfe"), 422),
        (gzip.compress(b" " * (MOST_BYTES + 1)), 413),
        (b"x" * (MOST_COMPRESSED_BYTES + 1), 413),
    ],
    ids=["no gzip", "cut", "more behind it", "not UTF-8", "unpacks to too much", "too large"],
)
def test_a_body_that_is_not_a_bounded_gzip_is_refused(leased, body, status):
    assert_problem(post("report", body, key=NODE_KEY, node="alpha"), status=status)
    assert_untouched(leased)


@pytest.mark.parametrize(("schema", "who"), [(SCHEMA_VERSION + 1, "site"), (SCHEMA_VERSION - 1, "node")])
def test_a_node_whose_messages_the_site_would_misread_is_refused_with_what_to_do(node, schema, who):
    status = status_of(schema_version=schema, environment={"pkb": "9.8.7"})
    body = assert_problem(tell(status, key=NODE_KEY, node="alpha"), status=409, field="schema_version")
    assert "(version 9.8.7)" in body["detail"]
    assert f"Install the newer version on the {who}." in body["detail"]
    node.refresh_from_db()
    assert node.environment == {}


def test_a_heartbeat_is_no_place_for_much(node):
    answer = tell(status_of(environment={"host": "x" * MOST_STATUS_BYTES}), key=NODE_KEY, node="alpha")
    assert_problem(answer, status=413)
    assert Node.objects.get().environment == {}


def test_other_encodings_and_types_are_refused(node):
    body = status_of().to_json().encode()
    answer = post("heartbeat", body, key=NODE_KEY, node="alpha", **{"Content-Encoding": "br"})
    assert_problem(answer, status=415, field="Content-Encoding")


@pytest.mark.parametrize("changes", [{"builders": 2**31 - 1}, {"builders": 65}, {"builders": -1}, {"slots": 65}])
def test_a_heartbeat_that_offers_nonsense_is_refused_by_the_name_of_the_field(node, changes):
    if "slots" in changes:
        changes = {"slots": status_of().slots * changes["slots"]}
    answer = tell(status_of(**changes), key=NODE_KEY, node="alpha")
    assert_problem(answer, status=422)
    assert next(iter(changes)) in answer.content.decode()


def test_a_slot_of_a_profile_that_the_site_does_not_know_is_left_out(node):
    slots = tuple(
        SlotStatus(index=at, profile=name, state=SlotState.FREE) for at, name in enumerate(("abacus", "cpux2"))
    )
    assert tell(status_of(slots=slots), key=NODE_KEY, node="alpha").status_code == 200
    assert [slot.profile for slot in node.slots.all()] == ["cpux2"]
