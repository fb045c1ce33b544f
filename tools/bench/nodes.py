"""Does throughput grow with the nodes? Prepared judgements over 1, 2, 4, 8 and 16 simulated nodes, and what each costs.

`make bench WHAT=nodes`. A node is a real one but for its judge, which waits as long as the
source says (tools/chaos/prepared.py): each has one slot and would judge one evaluation in `--judge-s`. The queue is
filled before, so that only dispatching, messages and recording stand between a slot and its next evaluation. Beside the
rate stands what share of a processor broker, database, web and dispatchers used.
"""

import argparse
import tempfile
import time
from pathlib import Path

from evaluator.contract import Verdict
from tools.bench.intake import processor_seconds
from tools.chaos.prepared import Outcome, source_of
from tools.chaos.site import DISPATCHERS, ChaosSite, chaos_site

_FILL = """
from portal.accounts import actions as accounts
from portal.submissions import actions
from portal.submissions.uploads import bundle_from_text
from tools.bench.nodes import sources
users = [accounts.sign_up(username=f"author{{n}}", password="a long pass phrase") for n in range(20)]
for number, text in enumerate(sources({count}, {judge_s})):
    actions.create_submission(users[number % 20], problem="allreduce", backend="pytorch", profile="h200x8",
                              mode="ranked", files=bundle_from_text(text))
"""
_DONE = "SELECT count(*) FROM submissions_evaluation WHERE state = 'finished'"


def sources(count: int, judge_s: float) -> list[str]:
    """So many different sources, each judged in `judge_s`."""
    outcome = Outcome(verdict=Verdict.PASSED, low=1.5, judge_s=judge_s)
    return [source_of(outcome, number=str(number)) for number in range(count)]


def start_node(site: ChaosSite, name: str) -> None:
    """A node with one slot and no builders; all are of one profile."""
    environment = {
        "PKB_SECRET_KEY": "",
        "PKB_DATABASE_URL": "",
        "PKB_BROKER_URL": site.broker.node_url(name),
        "PKB_SITE_URL": f"http://127.0.0.1:{site.to_web.join(name)}",
        "PKB_NODE_HEARTBEAT_SECONDS": "5",
    }
    site.stack.start_node(name, profiles="h200x8", module="tools.chaos.node", environment=environment)


def measure(site: ChaosSite, *, nodes: int, seconds: float, judge_s: float) -> float:
    """Wait until all slots work, then count for so long; prints a line and returns evaluations a second."""
    free = "SELECT count(*) FROM submissions_evaluation WHERE state IN ('leased', 'running')"
    while int(str(site.rows(free)[0][0])) < nodes:
        time.sleep(0.1)
    processes = {
        "broker": [site.broker.server.process.pid],  # type: ignore[union-attr]
        "database": [site.postgres.process.pid],  # type: ignore[union-attr]
        "web": [site.stack.pid("web")],
        "dispatchers": [site.stack.pid(name) for name in DISPATCHERS],
    }

    def spent() -> dict[str, float]:
        return {name: sum(map(processor_seconds, pids)) for name, pids in processes.items()}

    before, done, began = spent(), int(str(site.rows(_DONE)[0][0])), time.monotonic()
    time.sleep(seconds)
    after, more, took = spent(), int(str(site.rows(_DONE)[0][0])) - done, time.monotonic() - began
    rate, ideal = more / took, nodes / judge_s
    shares = "  ".join(f"{100 * (after[name] - before[name]) / took:9.1f} %" for name in processes)
    each_ms = 1e3 * sum(after[name] - before[name] for name in processes) / max(more, 1)
    print(f"{nodes:5} {rate:9.2f} {rate / ideal:8.0%}  {shares}   {each_ms:6.1f} ms", flush=True)
    return rate


def main() -> None:
    """Fill, start more and more nodes, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge-s", type=float, default=4.0, help="of every judgement")
    parser.add_argument("--seconds", type=float, default=30.0, help="of every count")
    chosen = parser.parse_args()
    counts = (1, 2, 4, 8, 16)
    queued = int(sum(count * (chosen.seconds + 25) / chosen.judge_s for count in counts)) + 50
    with tempfile.TemporaryDirectory() as folder, chaos_site(Path(folder) / "site") as site:
        site.stack.environment["PKB_MAX_QUEUED_PER_AUTHOR"] = str(queued)
        site.prepare(people=1, nodes=counts[-1])
        fill = _FILL.format(count=queued, judge_s=chosen.judge_s)
        site.stack.manage("shell", "--no-imports", "-c", fill)
        for name in ("web", *DISPATCHERS):
            site.start(name)
        print(f"judgements of {chosen.judge_s:g} s, {queued} queued; shares of one processor")
        print("nodes  a second of ideal      broker     database          web  dispatchers   processor time of each")
        started = 0
        for count in counts:
            for name in site.nodes[started:count]:
                start_node(site, name)
            started = count
            measure(site, nodes=count, seconds=chosen.seconds, judge_s=chosen.judge_s)


if __name__ == "__main__":
    main()
