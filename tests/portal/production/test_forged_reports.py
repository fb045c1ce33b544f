"""A guest's node that reports what it has no right to report, over real brokers and to the site's real worker."""

import json
import uuid
from pathlib import Path

import pytest
from celery import Celery

from evaluator.broker import node_config
from evaluator.broker.queues import address_of, site_queue
from evaluator.contract import TaskName
from tests.portal.production.conftest import Broker
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.production

LEASE = "the lease of alpha"
SCENE = f"""
import json
from datetime import timedelta
from django.utils import timezone
import msgspec
from evaluator.contract import Progress, SandboxLevel, SlotState, SlotStatus, Stage, NodeStatus
from portal.accounts import actions as accounts
from portal.accounts.organisations import create_organisation
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.submissions.models import Evaluation, State
from tests.portal.factories import delivery_of, evaluation_of, submit
alice = accounts.sign_up(username="alice", password="a long pass phrase")
acme = create_organisation(alice, slug="acme", name="Acme")
key = nodes.register_node("alpha")
guest = nodes.register_node("acme-1", owner=acme, allowed_profiles=["cpux2"])
evaluation = evaluation_of(submit(alice))
Evaluation.objects.update(
    state=State.LEASED, lease="{LEASE}", node=Node.objects.get(name="alpha"), slot_index=0,
    lease_expires_at=timezone.now() + timedelta(hours=1),
)
def delivery(**changes):
    return delivery_of(evaluation, **changes).to_json()
def status(name, key, profile):
    slots = (SlotStatus(index=0, profile=profile, state=SlotState.FREE),)
    return NodeStatus(node=name, key=key, slots=slots, sandbox=SandboxLevel.FULL, backends=(), revisions={{}}).to_json()
print(json.dumps({{
    "key": key,
    "guest": guest,
    "progress": Progress(evaluation_id=str(evaluation.pk), lease="{LEASE}", stage=Stage.TIMING).to_json(),
    "forged": [delivery(node="acme-1", low=99.0), delivery(node="alpha", low=99.0)],
    "guessed": delivery(node="acme-1", lease="guessed", low=99.0),
    "honest": delivery(node="alpha", low=2.0),
    "as_alpha": status("alpha", guest, "cpux2"),
    "spoofed": status("acme-1", guest, "h200x8-nomc"),
}}))
"""
OUTCOME = """
import json
from portal.nodes.models import Node, Slot
from portal.submissions.models import Evaluation, Report
evaluation = Evaluation.objects.get()
print(json.dumps([
    evaluation.state, evaluation.score_low, list(Report.objects.values_list("node_name", flat=True)),
    Slot.objects.count(), Node.objects.get(name="alpha").seen_at is None,
]))
"""


def sender(url: str, node: str) -> Celery:
    """What a node has: its own user of the broker."""
    app = Celery(set_as_current=False, fixups=[])
    app.conf.update(node_config(url, Path(), node=node))
    return app


def tell(app: Celery, name: TaskName, *arguments: str) -> None:
    address = address_of(site_queue(app.conf.broker_url, declared=False))
    app.send_task(name.value, args=arguments, ignore_result=True, **address)


def test_what_a_guest_forges_is_refused_and_logged(broker: Broker, postgres, tmp_path):
    name = f"forged_{uuid.uuid4().hex[:8]}"
    url = postgres.create_database(name, template="migrated")
    with Stack(tmp_path / "site", database_url=url, broker_url=broker.site_url) as stack:
        scene = json.loads(stack.manage("shell", "--no-imports", "-c", SCENE).splitlines()[-1])
        stack.start_worker()
        guest, alpha = sender(broker.node_url("acme-1"), "acme-1"), sender(broker.node_url("alpha"), "alpha")
        for text in scene["forged"]:
            tell(guest, TaskName.RECORD_DELIVERY, text, scene["guest"])
        tell(guest, TaskName.RECORD_DELIVERY, scene["forged"][1])
        tell(guest, TaskName.RECORD_DELIVERY, scene["guessed"], scene["guest"])
        tell(guest, TaskName.RECORD_PROGRESS, scene["progress"], scene["guest"])
        tell(guest, TaskName.RECORD_NODE_STATUS, scene["as_alpha"])
        tell(guest, TaskName.RECORD_NODE_STATUS, scene["spoofed"])
        # The queue keeps the order: when this one counts, all before it were looked at.
        tell(alpha, TaskName.RECORD_DELIVERY, scene["honest"], scene["key"])
        tell(alpha, TaskName.RECORD_DELIVERY, scene["honest"], scene["key"])
        log = wait_until(
            lambda: (
                stack.log("worker").count("came without a lease that is held; refused") == 2 and stack.log("worker")
            ),
            what="the replay is refused",
        )
        # Heartbeats are recorded beside the reports.
        wait_until(lambda: "offers the profile" in stack.log("worker"), what="the spoofed heartbeat is looked at")
        log = stack.log("worker")
        outcome = json.loads(stack.manage("shell", "--no-imports", "-c", OUTCOME).splitlines()[-1])
    assert outcome == ["finished", 2.0, ["alpha"], 0, True], log
    assert log.count("came without the key of node alpha; refused") == 4
    assert "heartbeat with a wrong key for node alpha" in log
    assert "node acme-1 offers the profile h200x8-nomc" in log


def test_a_revoked_nodes_reports_are_refused_and_its_user_goes(broker: Broker, postgres, tmp_path):
    name = f"revoked_{uuid.uuid4().hex[:8]}"
    url = postgres.create_database(name, template="migrated")
    with Stack(tmp_path / "site", database_url=url, broker_url=broker.site_url) as stack:
        scene = json.loads(stack.manage("shell", "--no-imports", "-c", SCENE).splitlines()[-1])
        stack.manage("node_revoke", "alpha")
        stack.start_worker()
        alpha = sender(broker.url_for("node", "alpha-revoked"), "alpha-revoked")
        tell(alpha, TaskName.RECORD_DELIVERY, scene["honest"], scene["key"])
        wait_until(lambda: "without a lease that is held; refused" in stack.log("worker"), what="the report is refused")
        outcome = json.loads(stack.manage("shell", "--no-imports", "-c", OUTCOME).splitlines()[-1])
        assert outcome[:3] == ["queued", None, []]
        assert broker.credentials("remove", "alpha-revoked").returncode == 0
    users = broker.credentials("remove", "alpha-revoked")
    assert users.returncode == 1, "its user was there still"
