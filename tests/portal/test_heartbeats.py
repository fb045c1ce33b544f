"""Heartbeats of many nodes: which one counts, what recording them costs, and what a false one does to the others."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evaluator.contract import Backend, NodeStatus, SandboxLevel, SlotState, SlotStatus
from portal.dispatcher.arrivals import MOST, Arrivals, Recorder
from portal.dispatcher.heartbeats import record_heartbeats
from portal.dispatcher.tasks import MOST_CHARACTERS, is_late, parsed
from portal.nodes import actions as nodes
from portal.nodes.models import Node, Slot


def status_of(name, key="a key", *, state=SlotState.FREE, index=0):
    return NodeStatus(
        node=name,
        key=key,
        slots=(SlotStatus(index=index, profile="cpux2", state=state),),
        sandbox=SandboxLevel.REDUCED,
        backends=(Backend.PYTORCH,),
        revisions={"allreduce": "0123456789abcdef"},
    )


class Clock:
    """Stands still until it is set."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def arrivals(clock):
    return Arrivals(clock=clock, patience_s=1.0)


def test_the_newest_of_each_node_is_taken(arrivals):
    for state in (SlotState.STARTING, SlotState.BUSY):
        arrivals.put(status_of("alpha", state=state))
    arrivals.put(status_of("beta"))
    arrivals.put(status_of("alpha"))
    assert arrivals.take() == [status_of("beta"), status_of("alpha")]


def test_a_heartbeat_in_another_nodes_name_does_not_replace_that_nodes_own(arrivals):
    arrivals.put(status_of("alpha", "its key"))
    arrivals.put(status_of("alpha", "another key", state=SlotState.QUARANTINED))
    assert status_of("alpha", "its key") in arrivals.take()


def test_what_has_no_news_goes_with_the_next_that_has(arrivals, clock):
    arrivals.put(status_of("alpha"))
    arrivals.take()
    clock.now_s += 5
    arrivals.put(status_of("alpha"))
    arrivals.put(status_of("beta"))
    assert arrivals.take() == [status_of("alpha"), status_of("beta")]


def test_what_has_no_news_waits_no_longer_than_the_patience(arrivals, clock):
    arrivals.put(status_of("alpha"))
    arrivals.take()
    arrivals.put(status_of("alpha"))
    clock.now_s += 1
    assert arrivals.take() == [status_of("alpha")]


def test_a_flood_of_names_leaves_the_newest(arrivals):
    for number in range(MOST + 10):
        arrivals.put(status_of(f"node-{number}"))
    taken = arrivals.take(most=2 * MOST)
    assert [taken[0].node, taken[-1].node, len(taken)] == ["node-10", f"node-{MOST + 9}", MOST]


def registered(number):
    return {name: nodes.register_node(name) for name in (f"node-{index}" for index in range(number))}


def test_many_nodes_need_no_more_statements_than_one(db, now):
    statuses = [status_of(name, key) for name, key in registered(8).items()]
    assert record_heartbeats(statuses, now) == 8
    assert Slot.objects.filter(state=SlotState.FREE).count() == 8

    def statements(heard, moment):
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert record_heartbeats(heard, moment) == len(heard)
        return len(captured)

    one = statements(statuses[:1], now + timedelta(seconds=1))
    assert statements(statuses, now + timedelta(seconds=2)) == one
    assert set(Node.objects.values_list("seen_at", flat=True)) == {now + timedelta(seconds=2)}


def test_only_what_differs_is_written(db, now):
    [(name, key)] = registered(1).items()
    record_heartbeats([status_of(name, key)], now)
    with CaptureQueriesContext(connection) as captured:
        record_heartbeats([status_of(name, key)], now + timedelta(seconds=1))
    written = [query["sql"] for query in captured if query["sql"].startswith(("UPDATE", "INSERT", "DELETE"))]
    assert len(written) == 1
    assert "seen_at" in written[0]
    assert "revisions" not in written[0]


@pytest.mark.django_db(transaction=True)
def test_a_heartbeat_that_cannot_be_stored_costs_the_others_nothing(now, caplog):
    keys = registered(2)
    odd = status_of("node-0", keys["node-0"], index=-1)
    Recorder(Arrivals(), rest=lambda: None).record([odd, status_of("node-1", keys["node-1"])])
    assert dict(Node.objects.values_list("name", "seen_at"))["node-1"] is not None
    assert [slot.node.name for slot in Slot.objects.all()] == ["node-1"]
    assert "the heartbeat of node node-0 cannot be stored" in caplog.text


def test_a_wrong_key_beside_the_right_one_changes_nothing(db, now):
    keys = registered(2)
    false = status_of("node-0", keys["node-1"], state=SlotState.QUARANTINED)
    assert record_heartbeats([status_of("node-0", keys["node-0"]), false], now) == 1
    assert Slot.objects.get().state == SlotState.FREE


@pytest.mark.parametrize(
    ("expires", "expected"),
    [
        ("2026-11-22T12:00:01+00:00", False),
        ("2026-11-22T11:59:59+00:00", True),
        ("2026-11-22T11:59:59", True),
        ("2026-11-22T13:59:59+02:00", True),
        ("soon", True),
        (None, False),
    ],
)
def test_a_heartbeat_is_late_after_the_time_that_it_names(expires, expected):
    assert is_late(expires, datetime(2026, 11, 22, 12, tzinfo=UTC)) is expected


def test_what_is_no_heartbeat_is_refused(caplog):
    assert parsed("[1, 2") is None
    huge = msgspec.structs.replace(status_of("alpha"), environment={"host": "x" * MOST_CHARACTERS})
    assert parsed(huge.to_json()) is None
    assert caplog.text.count("heartbeat refused") == 2


@pytest.mark.parametrize("changes", [{"builders": 2**31 - 1}, {"builders": 65}, {"builders": -1}, {"slots": 65}])
def test_a_heartbeat_that_offers_nonsense_is_refused_by_the_name_of_the_field(changes, caplog):
    status = status_of("alpha")
    if "slots" in changes:
        changes = {"slots": status.slots * changes["slots"]}
    assert parsed(msgspec.structs.replace(status, **changes).to_json()) is None
    assert f"$.{next(iter(changes))}" in caplog.text


def test_a_slot_of_a_profile_that_the_site_does_not_know_is_left_out(db, now, caplog):
    status = status_of("node-0", registered(1)["node-0"])
    slots = (msgspec.structs.replace(status.slots[0], profile="abacus"), *status.slots)
    slots = tuple(msgspec.structs.replace(slot, index=index) for index, slot in enumerate(slots))
    assert record_heartbeats([msgspec.structs.replace(status, slots=slots)], now) == 1
    assert Slot.objects.get().profile == status.slots[0].profile
    assert "offers the profile abacus" in caplog.text
