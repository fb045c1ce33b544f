"""What does a heartbeat cost, and does a report wait behind heartbeats? One worker as production starts it.

`make bench WHAT=heartbeats ARGS="--broker rabbitmq"`. PostgreSQL, the broker and a worker run on this machine. The
worker is frozen, then as many heartbeats as `--count` says and one report behind them are sent, and the worker goes on.
Measured from then: until the report is recorded, and until the queue is empty. Beside it stands the processor time of
worker, database and broker over that time, for each heartbeat. Each node is of one profile, names all problems as a
real one does, and judges an evaluation.

The second line is the load that a site sees: for `--seconds`, every node sends `--a-second` heartbeats a second. Its
share is that of one processor.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from celery import Celery

from evaluator.broker import node_config, site_config
from evaluator.broker.queues import address_of, length, site_queue
from evaluator.contract import (
    Backend,
    Delivery,
    EvaluationRequest,
    NodeStatus,
    SandboxLevel,
    SlotState,
    SlotStatus,
    TaskName,
)
from evaluator.node.outbox import STATUS_VALID_S
from evaluator.node.slots import failure_report
from problems import registry
from tests.bench.intake import processor_seconds
from tests.chaos.site import ChaosSite, chaos_site
from tests.stack import wait_until

WORKER = "worker1"
SLOTS = {"cpux2": 2, "h200x8": 1, "h200x4-nomc": 2}

_LEASE = """
from datetime import timedelta
from django.utils import timezone
from portal.accounts import actions as accounts
from portal.nodes.models import Node
from portal.submissions import actions
from portal.submissions.models import Evaluation
from portal.dispatcher.dispatching import request_of
from tests.portal.factories import bundle
user = accounts.sign_up(username="author", password="a long pass phrase")
now = timezone.now()
for number, node in enumerate(Node.objects.order_by("name")):
    made = actions.create_submission(user, problem="allreduce", backend="pytorch", profile="h200x8", mode="ranked",
                                     files=bundle())
    waiting = Evaluation.objects.filter(submission=made.submission)
    waiting.update(state="leased", lease=f"lease {number}", node=node, slot_index=0,
                   lease_expires_at=now + timedelta(hours=1), deadline_at=now + timedelta(hours=1))
    print(request_of(waiting.get()).to_json())
"""


def status_of(name: str, key: str, profile: str, running: tuple[str, ...]) -> NodeStatus:
    """A heartbeat as a node of this profile sends it while all its slots work."""
    slots = range(SLOTS[profile])
    return NodeStatus(
        node=name,
        key=key,
        slots=tuple(
            SlotStatus(index=index, profile=profile, state=SlotState.BUSY, evaluation_id=running[0]) for index in slots
        ),
        sandbox=SandboxLevel.FULL,
        backends=(Backend.PYTORCH, Backend.CUDA),
        revisions={problem.slug: registry.revision(problem.slug) for problem in registry.problems()},
        environment={"host": name, "python": "3.12.3", "torch": "2.9.0"},
        running=running,
    )


class Sender:
    """Sends as the nodes do, each with the rights of its own user."""

    def __init__(self, site: ChaosSite, statuses: list[NodeStatus]) -> None:
        self.statuses = statuses
        self._apps = [self._app(site, status.node) for status in statuses]

    @staticmethod
    def _app(site: ChaosSite, name: str) -> Celery:
        app = Celery(name, set_as_current=False, fixups=[])
        app.conf.update(node_config(site.broker.node_url(name), Path("/nonexistent"), node=name))
        return app

    def send(self, number: int, name: TaskName, text: str, *, expires_s: float | None) -> None:
        """One message of a node, counted over all of them in turn."""
        app, status = self._apps[number % len(self._apps)], self.statuses[number % len(self._apps)]
        address = address_of(site_queue(app.conf.broker_url, declared=False))
        app.send_task(name.value, args=(text, status.key), expires=expires_s, ignore_result=True, **address)

    def beat(self, number: int) -> None:
        """A heartbeat of a node."""
        text = self.statuses[number % len(self.statuses)].to_json()
        self.send(number, TaskName.RECORD_NODE_STATUS, text, expires_s=STATUS_VALID_S)


def spent(site: ChaosSite) -> dict[str, float]:
    """The processor time that each part has used, in seconds."""
    return {
        "worker": processor_seconds(site.stack.pid(WORKER)),
        "database": processor_seconds(site.postgres.process.pid),  # type: ignore[union-attr]
        "broker": processor_seconds(site.broker.server.process.pid),  # type: ignore[union-attr]
    }


def waiting(site: ChaosSite) -> Callable[[], int]:
    """A function that says how many messages wait in the site's queue."""
    app = Celery("count", set_as_current=False, fixups=[])
    app.conf.update(site_config(site.broker.site_url, Path("/nonexistent")))
    queue = site_queue(site.broker.site_url, declared=True)
    connection = app.connection_for_read()
    return lambda: length(queue, connection)


def transactions(site: ChaosSite) -> int:
    """How many transactions the database has committed."""
    [[count]] = site.rows("SELECT xact_commit FROM pg_stat_database WHERE datname = 'chaos'")
    return int(str(count))


def pile_up(site: ChaosSite, sender: Sender, request: EvaluationRequest, *, count: int) -> None:
    """Freeze the worker, send heartbeats and a report behind them, let it go on; prints times and costs."""
    left = waiting(site)
    site.stack.pause(WORKER)
    for number in range(count):
        sender.beat(number)
    delivery = Delivery(lease="lease 0", node=sender.statuses[0].node, report=failure_report(request, "for the bench"))
    returned = msgspec.structs.replace(delivery, is_returned=True)
    sender.send(0, TaskName.RECORD_DELIVERY, returned.to_json(), expires_s=None)
    before, committed, began = spent(site), transactions(site), time.monotonic()
    site.stack.resume(WORKER)
    held = "SELECT count(*) FROM submissions_evaluation WHERE lease = 'lease 0'"
    wait_until(lambda: site.rows(held) == [(0,)], what="the report is recorded", seconds=300)
    recorded_s = time.monotonic() - began
    wait_until(lambda: left() == 0, what="the queue is empty", seconds=300)
    took_s, after = time.monotonic() - began, spent(site)
    each = {name: 1e3 * (after[name] - before[name]) / count for name in before}
    print(
        f"{count} heartbeats, then a report: recorded after {recorded_s:.2f} s, all taken after {took_s:.2f} s; "
        f"{(transactions(site) - committed) / count:.2f} transactions each; processor time of each: "
        + ", ".join(f"{name} {ms:.2f} ms" for name, ms in each.items()),
        flush=True,
    )


def steady(site: ChaosSite, sender: Sender, *, seconds: float, a_second: float) -> None:
    """Every node sends as often; prints shares of a processor, less what the idle site uses."""
    time.sleep(1)
    idle = spent(site)
    time.sleep(seconds / 4)
    idle_each_s = {name: (used - idle[name]) / (seconds / 4) for name, used in spent(site).items()}
    before, began, number = spent(site), time.monotonic(), 0
    pause_s = 1 / (a_second * len(sender.statuses))
    while (now := time.monotonic()) < began + seconds:
        sender.beat(number)
        number += 1
        time.sleep(max(0.0, began + number * pause_s - now))
    took_s, after = time.monotonic() - began, spent(site)
    parts = []
    for name in before:
        share = (after[name] - before[name]) / took_s - idle_each_s[name]
        parts.append(f"{name} {100 * share:.1f} % ({1e3 * share * took_s / number:.2f} ms each)")
    print(f"{number / took_s:.1f} heartbeats a second: " + ", ".join(parts), flush=True)


def main() -> None:
    """Prepare, pile up, let go; then the steady load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("redis", "rabbitmq"), default="redis")
    parser.add_argument("--count", type=int, default=1000, help="heartbeats before the report")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--profile", choices=tuple(SLOTS), default="h200x8")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the steady load")
    parser.add_argument("--a-second", type=float, default=1.0, help="heartbeats of each node")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chaos_site(Path(folder) / "site", broker=chosen.broker) as site:
        site.stack.environment["PKB_MAX_QUEUED_PER_AUTHOR"] = "1000"
        site.prepare(people=1, nodes=chosen.nodes)
        printed = site.stack.manage("shell", "--no-imports", "-c", _LEASE)
        requests = [EvaluationRequest.from_json(line) for line in printed.splitlines()]
        keys = site.stack.node_keys
        statuses = [
            status_of(name, keys[name], chosen.profile, (request.evaluation_id,))
            for name, request in zip(site.nodes, requests, strict=True)
        ]
        sender = Sender(site, statuses)
        site.stack.start_worker(WORKER, pool=("prefork", "--concurrency", "2"))
        wait_until(lambda: "ready" in site.stack.log(WORKER), what="the worker is ready")
        for number in range(2 * chosen.nodes):
            sender.beat(number)
        seen = "SELECT count(*) FROM nodes_node WHERE seen_at IS NULL"
        wait_until(lambda: site.rows(seen) == [(0,)], what="all nodes are seen")
        print(f"{chosen.broker}, {chosen.nodes} nodes of {chosen.profile}, {os.cpu_count()} processors, "
              f"load {os.getloadavg()[0]:.1f}, {len(statuses[0].to_json())} bytes a heartbeat")  # fmt: skip
        pile_up(site, sender, requests[0], count=chosen.count)
        steady(site, sender, seconds=chosen.seconds, a_second=chosen.a_second)


if __name__ == "__main__":
    main()
