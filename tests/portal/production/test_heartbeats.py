"""Heartbeats and reports pass each other in the site's real worker, over both brokers."""

import json
import uuid
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import pytest
from celery import Celery

from evaluator.broker import node_config, site_config
from evaluator.broker.queues import address_of, length, site_queue, work_queue
from evaluator.contract import TaskName
from tests.portal.production.conftest import Broker
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.production

MANY = 1000
SCENE = """
import json
from datetime import timedelta
from django.utils import timezone
from evaluator.contract import SandboxLevel, SlotState, SlotStatus, NodeStatus
from portal.accounts import actions as accounts
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.submissions.models import Evaluation, State
from tests.portal.factories import delivery_of, evaluation_of, submit
alice = accounts.sign_up(username="alice", password="a long pass phrase")
keys = {name: nodes.register_node(name) for name in ("alpha", "beta", "gamma")}
evaluation = evaluation_of(submit(alice))
Evaluation.objects.update(state=State.LEASED, lease="a lease", node=Node.objects.get(name="alpha"), slot_index=0,
                          lease_expires_at=timezone.now() + timedelta(hours=1))
def status(name):
    slots = (SlotStatus(index=0, profile="cpux2", state=SlotState.FREE),)
    return NodeStatus(node=name, key=keys[name], slots=slots, sandbox=SandboxLevel.FULL, backends=(), revisions={})
print(json.dumps({
    "keys": keys,
    "report": delivery_of(evaluation, low=2.0).to_json(),
    "statuses": {name: status(name).to_json() for name in keys},
}))
"""


class Site:
    """A worker with a pool, a report to deliver, and nodes that send what a test says."""

    def __init__(self, stack: Stack, broker: Broker, dsn: str) -> None:
        self.stack, self._dsn = stack, dsn
        self._scene = json.loads(stack.manage("shell", "--no-imports", "-c", SCENE).splitlines()[-1])
        self._app = Celery(set_as_current=False, fixups=[])
        self._app.conf.update(node_config(broker.node_url("alpha"), Path(), node="alpha"))
        self._address = address_of(site_queue(broker.public_url, declared=False))

    def start_worker(self) -> None:
        self.stack.start_worker(pool=("prefork", "--concurrency", "2"))
        wait_until(lambda: "ready" in self.stack.log("worker"), what="the worker is ready")

    def report(self) -> None:
        self._tell(TaskName.RECORD_DELIVERY, self._scene["report"], "alpha", expires_s=None)

    def beat(self, name: str, *, expires_s: float = 600) -> None:
        self._tell(TaskName.RECORD_NODE_STATUS, self._scene["statuses"][name], name, expires_s=expires_s)

    def _tell(self, task: TaskName, text: str, name: str, *, expires_s: float | None) -> None:
        key = self._scene["keys"][name]
        self._app.send_task(task.value, args=(text, key), expires=expires_s, ignore_result=True, **self._address)

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with self.locked(query) as rows:
            return rows

    @contextmanager
    def locked(self, query: str):
        """What the query finds, in a transaction that ends afterwards."""
        connection = psycopg2.connect(self._dsn)
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                yield cursor.fetchall()
        finally:
            connection.close()

    def is_seen(self, name: str) -> bool:
        return self.ask(f"SELECT seen_at IS NOT NULL FROM nodes_node WHERE name = '{name}'") == [(True,)]

    def is_finished(self) -> bool:
        return self.ask("SELECT state FROM submissions_evaluation") == [("finished",)]


@pytest.fixture
def site(broker: Broker, postgres, tmp_path):
    name = f"heartbeats_{uuid.uuid4().hex[:8]}"
    url = postgres.create_database(name, template="migrated")
    with Stack(tmp_path / "site", database_url=url, broker_url=broker.site_url) as stack:
        yield Site(stack, broker, postgres.dsn(name))


def test_a_report_does_not_wait_for_the_heartbeats_before_it(site):
    with site.locked("SELECT 1 FROM nodes_node WHERE name = 'alpha' FOR NO KEY UPDATE"):
        # No heartbeat of this node can be recorded as long as somebody holds its row.
        for _ in range(MANY):
            site.beat("alpha")
        site.report()
        site.start_worker()
        wait_until(site.is_finished, what=lambda: f"the report is recorded\n{site.stack.log('worker')}")
        assert not site.is_seen("alpha")
    wait_until(lambda: site.is_seen("alpha"), what="the heartbeat is recorded")


def test_a_heartbeat_does_not_wait_for_the_reports_before_it(site):
    site.start_worker()
    # The first one after a silence renews the leases of all evaluations.
    site.beat("gamma")
    wait_until(lambda: site.is_seen("gamma"), what="the first is recorded")
    with site.locked("SELECT 1 FROM submissions_evaluation FOR UPDATE"):
        for _ in range(20):
            site.report()
        site.beat("beta")
        wait_until(lambda: site.is_seen("beta"), what=lambda: f"the node is seen\n{site.stack.log('worker')}")
        assert not site.is_finished()
    wait_until(site.is_finished, what="the report is recorded")


def test_a_heartbeat_that_waited_too_long_does_not_revive_its_node(site):
    site.beat("beta", expires_s=-1)
    site.beat("gamma")
    site.start_worker()
    wait_until(lambda: site.is_seen("gamma"), what=lambda: f"the other is seen\n{site.stack.log('worker')}")
    assert not site.is_seen("beta")


def test_messages_share_the_workers_connections_to_the_database(site):
    site.start_worker()
    for _ in range(30):
        site.report()
    wait_until(lambda: site.stack.log("worker").count("succeeded in") >= 30, what="all reports are looked at")
    # Celery by itself closes the connection with every message.
    others = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    assert site.ask(others) == [(True,)]


def test_the_sites_user_may_count_what_waits(site, broker):
    app = Celery(set_as_current=False, fixups=[])
    app.conf.update(site_config(broker.site_url, Path()))
    queue = site_queue(broker.site_url, declared=True)
    with app.connection_for_read() as connection:
        before = length(queue, connection)
        site.beat("alpha")
        site.report()
        assert length(queue, connection) == before + 2
        assert length(work_queue("nobody", declared=True), connection) == 0
