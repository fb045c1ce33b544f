"""What do heartbeats cost a site, and do its pages wait for them? 200 nodes, one heartbeat in five seconds each.

`make bench WHAT=heartbeats ARGS="--seconds 60"`. PostgreSQL and the web processes of a site run on this machine. A
visitor opens pages one after another, first alone and then beside the heartbeats of all nodes; printed are the times of
both, how long heartbeats took to be answered, and the processor time of each. Each node is of one profile, names all
problems as a real one does, and judges an evaluation. Then reports are sent beside the heartbeats: from the first byte
to the receipt, and to the page that shows the verdict.
"""

import argparse
import os
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles

from evaluator.contract import (
    Backend,
    Delivery,
    EvaluationRequest,
    NodeMessage,
    NodeStatus,
    SandboxLevel,
    SlotState,
    SlotStatus,
    Verdict,
)
from evaluator.node.site import Site
from evaluator.node.slots import failure_report
from problems import registry
from tests.stack import wait_until
from tools.bench.intake import processor_seconds
from tools.chaos.site import ChaosSite, chaos_site

PAGES = ("/", "/problems/allreduce/", "/nodes/", "/leaderboards/")
_REPORTS = 20
_SENDERS = 16

_LEASE = """
from datetime import timedelta
from django.utils import timezone
from portal.accounts import actions as accounts
from portal.submissions.lifecycle import new_lease
from portal.nodes.models import Node
from portal.submissions import actions
from portal.submissions.models import Evaluation
from portal.submissions.queries import request_of
from tests.portal.factories import bundle
user = accounts.sign_up(username="author", password="a long pass phrase")
now = timezone.now()
for node in Node.objects.order_by("pk"):
    made = actions.create_submission(user, problem="allreduce", backend="pytorch", profile="h200x8", mode="ranked",
                                     files=bundle(), visibility="public")
    waiting = Evaluation.objects.filter(submission=made.submission)
    lease = new_lease(waiting.get().pk, node.name)
    waiting.update(state="leased", lease=lease, node=node, slot_index=0,
                   lease_expires_at=now + timedelta(hours=1), deadline_at=now + timedelta(hours=1))
    print(lease, made.submission.pk, request_of(waiting.get()).to_json())
"""


class Nodes:
    """Sends as the nodes do, each with its own key."""

    def __init__(self, site: ChaosSite, requests: list[EvaluationRequest]) -> None:
        self._statuses = [
            _status_of(name, request.evaluation_id) for name, request in zip(site.nodes, requests, strict=True)
        ]
        keys = site.stack.node_keys
        self.sites = [
            Site(f"http://127.0.0.1:{site.to_web.join('nodes')}", name=name, key=keys[name]) for name in site.nodes
        ]
        self.seconds: list[float] = []
        self._number = iter(range(10_000_000))

    def beat(self, *, until: float, a_second: float) -> None:
        """Send heartbeats of all nodes in turn, evenly, until then."""
        began, first = time.monotonic(), next(self._number)

        def send() -> None:
            while (number := next(self._number)) >= 0:
                due = began + (number - first) / a_second
                if due > until:
                    return
                time.sleep(max(0.0, due - time.monotonic()))
                sent = time.monotonic()
                place = number % len(self.sites)
                self.sites[place].send(NodeMessage.HEARTBEAT, self._statuses[place].to_json())
                self.seconds.append(time.monotonic() - sent)

        threads = [threading.Thread(target=send) for _ in range(_SENDERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _status_of(name: str, running: str) -> NodeStatus:
    return NodeStatus(
        node=name,
        slots=(SlotStatus(index=0, profile="h200x8", state=SlotState.BUSY, evaluation_id=running),),
        sandbox=SandboxLevel.FULL,
        backends=(Backend.PYTORCH, Backend.CUDA),
        revisions={problem.slug: registry.revision(problem.slug) for problem in registry.problems()},
        environment={"host": name, "python": "3.12.3", "torch": "2.9.0"},
        running=(running,),
    )


def spent(site: ChaosSite) -> dict[str, float]:
    """The processor time that each part has used, in seconds."""
    assert site.postgres.process is not None
    return {
        "web": processor_seconds(site.stack.pid("web")),
        "database": processor_seconds(site.postgres.process.pid),
    }


def open_page(url: str, path: str) -> tuple[float, str]:
    """How long a page took, and its text."""
    request = urllib.request.Request(f"{url}{path}", headers={"X-Forwarded-Proto": "https"})
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=60) as response:
        text = response.read().decode()
    return time.monotonic() - began, text


def visit(url: str, seconds: float) -> list[float]:
    """Open pages, one every 50 ms at most, for so long; how long each took. In a process apart from those that send."""
    taken, number, until = [], 0, time.monotonic() + seconds
    while time.monotonic() < until:
        taken.append(open_page(url, PAGES[number % len(PAGES)])[0])
        number += 1
        time.sleep(0.05)
    return taken


def line(name: str, seconds: list[float]) -> str:
    """Median and 95th percentile in milliseconds."""
    p95 = quantiles(seconds, n=20)[18]
    return f"{name}: {1e3 * median(seconds):.0f} ms at the median, {1e3 * p95:.0f} ms at p95, of {len(seconds)}"


def measure(site: ChaosSite, nodes: Nodes, *, seconds: float, a_second: float) -> None:
    """Pages alone and beside heartbeats; prints times and costs."""
    url = site.stack.url
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as visitor:
        visitor.submit(visit, url, 5).result()
        # One round of all nodes first: a page of nodes that never spoke is a smaller page.
        nodes.beat(until=time.monotonic() + len(nodes.sites) / a_second, a_second=a_second)
        print(line("pages alone", visitor.submit(visit, url, seconds).result()), flush=True)
        nodes.seconds.clear()
        visiting = visitor.submit(visit, url, seconds)
        nodes.beat(until=time.monotonic() + seconds, a_second=a_second)
        print(line(f"pages beside {a_second:g} heartbeats a second", visiting.result()), flush=True)
    print(line("heartbeats beside pages", nodes.seconds), flush=True)
    before, counted, began = spent(site), len(nodes.seconds), time.monotonic()
    nodes.beat(until=began + seconds / 2, a_second=a_second)
    took_s, after, count = time.monotonic() - began, spent(site), len(nodes.seconds) - counted
    used = {name: after[name] - before[name] for name in before}
    shares = ", ".join(f"{name} {100 * s / took_s:.0f} % ({1e3 * s / count:.1f} ms)" for name, s in used.items())
    print(f"{count / took_s:.0f} heartbeats a second alone use of one processor (and each): {shares}", flush=True)


def report(site: ChaosSite, nodes: Nodes, held: list[tuple[str, str, EvaluationRequest]], *, a_second: float) -> None:
    """Reports beside heartbeats: seconds to the receipt, and to the page with the verdict."""
    until = time.monotonic() + 20
    beating = threading.Thread(target=nodes.beat, kwargs={"until": until, "a_second": a_second})
    beating.start()
    receipts, pages = [], []
    for number, (lease, submission, request) in enumerate(held[:_REPORTS]):
        found = failure_report(request, "for the bench", verdict=Verdict.WRONG_RESULT)
        delivery = Delivery(lease=lease, node=site.nodes[number], report=found)
        began = time.monotonic()
        nodes.sites[number].send(NodeMessage.REPORT, delivery.to_json())
        receipts.append(time.monotonic() - began)
        path = f"/submissions/{submission}/"
        wait_until(
            lambda path=path: "Wrong result" in open_page(site.stack.url, path)[1],
            what=f"a verdict at {path}",
            seconds=30,
        )
        pages.append(time.monotonic() - began)
    beating.join()
    print(line("a report to its receipt, beside heartbeats", receipts))
    print(line("a report to the page that shows it", pages), flush=True)


def main() -> None:
    """Prepare, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--a-second", type=float, default=40.0, help="heartbeats of all nodes together")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chaos_site(Path(folder) / "site") as site:
        site.stack.environment["PKB_MAX_QUEUED_PER_AUTHOR"] = "1000"
        site.prepare(people=1, nodes=chosen.nodes)
        (site.stack.data_dir / "static").rmdir()  # pages are asked for: they are collected
        printed = site.stack.manage("shell", "--no-imports", "-c", _LEASE).splitlines()
        held = [
            (lease, submission, EvaluationRequest.from_json(text))
            for lease, submission, text in (each.split(" ", 2) for each in printed)
        ]
        site.stack.start_web(workers=2)
        nodes = Nodes(site, [request for _, _, request in held])
        print(f"{chosen.nodes} nodes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}", flush=True)
        measure(site, nodes, seconds=chosen.seconds, a_second=chosen.a_second)
        report(site, nodes, held, a_second=chosen.a_second)


if __name__ == "__main__":
    main()
