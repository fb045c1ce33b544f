"""What a heartbeat writes, and what it does not."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evaluator.contract import Backend, NodeStatus, SandboxLevel, SlotState, SlotStatus
from portal.dispatcher.leases import record_heartbeat
from portal.nodes.actions import register_node
from portal.nodes.models import Node

pytestmark = pytest.mark.django_db


def hear(now, **changes):
    fields = {
        "node": "alpha",
        "slots": (SlotStatus(index=0, profile="cpux2", state=SlotState.FREE),),
        "sandbox": SandboxLevel.REDUCED,
        "backends": (Backend.PYTORCH,),
        "revisions": {"allreduce": "0123456789abcdef"},
    }
    record_heartbeat(Node.objects.get(), NodeStatus(**(fields | changes)), now)


def test_only_what_differs_is_written(now):
    register_node("alpha")
    hear(now)
    with CaptureQueriesContext(connection) as captured:
        hear(now + timedelta(seconds=1))
    written = [query["sql"] for query in captured if query["sql"].startswith(("UPDATE", "INSERT", "DELETE"))]
    assert len(written) == 1
    assert "seen_at" in written[0]
    assert "revisions" not in written[0]


def test_what_differs_is_written(now):
    register_node("alpha")
    hear(now)
    hear(now, slots=(SlotStatus(index=1, profile="cpux4", state=SlotState.BUSY),), builders=2, refusals=("why",) * 9)
    node = Node.objects.get()
    assert list(node.slots.values_list("index", "profile", "state")) == [(1, "cpux4", "busy")]
    assert (node.builders, node.refusals) == (2, ["why"] * 5)
