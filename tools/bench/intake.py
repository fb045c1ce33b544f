"""How many submissions a second the API takes in, and whether any is lost.

`python -m tools.bench.intake [--submissions 2000] [--clients 8] [--authors 20] [--web 2]` starts PostgreSQL and the web
server, and sends different sources over several connections that stay open. Afterwards it counts what the database
holds. The clients run on the same machine and use its processors as well. So the processor time that web and database
spent on each submission is counted too: on processors of their own, they would take that long.
"""

import argparse
import http.client
import json
import os
import tempfile
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlsplit

from problems import registry
from tests import servers
from tests.stack import Stack

_MAKE_AUTHORS = """
from portal.accounts import actions
for number in range({authors}):
    user = actions.sign_up(username=f"author{{number}}", password="a long pass phrase")
    print(actions.create_token(user, name="bench", scopes=["submit", "read"], lifetime_days=1)[1])
"""
_WARM_UP = 40
_COUNT = "from portal.submissions.models import Submission; print(Submission.objects.count())"


_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(root: int) -> float:
    """The processor time of a process and everything below it, what has ended included."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # ended while we looked
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks[pid] for pid in family) / _TICKS


class Load:
    """Clients that send submissions until all are sent."""

    def __init__(self, url: str, tokens: list[str], *, submissions: int, clients: int, first: int = 0) -> None:
        self.refused: list[tuple[int, str]] = []
        self.seconds: list[float] = []
        self._address = urlsplit(url).netloc
        self._tokens = tokens
        self._end = first + submissions
        self._numbers = count(first)
        self._threads = [threading.Thread(target=self._send_all) for _ in range(clients)]

    def run(self) -> float:
        """Send everything; the seconds from the first request to the last answer."""
        start = time.perf_counter()
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        return time.perf_counter() - start

    def _send_all(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        while (number := next(self._numbers)) < self._end:
            start = time.perf_counter()
            status, text = self._send(connection, number)
            self.seconds.append(time.perf_counter() - start)
            if status != 201:
                self.refused.append((status, text))
        connection.close()

    def _send(self, connection: http.client.HTTPConnection, number: int) -> tuple[int, str]:
        source = f"# {number}\n{registry.reference_source('allreduce')}"
        body = {"problem": "allreduce", "profile": "cpux2", "backend": "pytorch", "mode": "check", "source": source}
        token = self._tokens[number % len(self._tokens)]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/submissions/", json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--authors", type=int, default=20)
    parser.add_argument("--web", type=int, default=2, help="web processes")
    chosen = parser.parse_args()
    environment = {
        "PKB_MAX_QUEUED_PER_AUTHOR": str(chosen.submissions + _WARM_UP),
        "PKB_GPU_SECONDS_PER_30_DAYS": "1e9",
    }
    with tempfile.TemporaryDirectory() as folder, servers.postgresql() as database:
        url = database.create_database("intake")
        with Stack(Path(folder), database_url=url, environment=environment) as stack:
            stack.migrate()
            stack.start_web(workers=chosen.web)
            printed = stack.manage("shell", "--no-imports", "-c", _MAKE_AUTHORS.format(authors=chosen.authors))
            tokens = printed.split()
            # The first requests of a web process load the problems, once for all that follow.
            Load(stack.url, tokens, submissions=_WARM_UP, clients=chosen.clients).run()
            load = Load(stack.url, tokens, submissions=chosen.submissions, clients=chosen.clients, first=_WARM_UP)
            processes = {"web": stack.pid("web"), "PostgreSQL": database.process.pid}
            before = {name: processor_seconds(pid) for name, pid in processes.items()}
            seconds = load.run()
            spent = {name: processor_seconds(pid) - before[name] for name, pid in processes.items()}
            kept = int(stack.manage("shell", "--no-imports", "-c", _COUNT).split()[-1]) - _WARM_UP
    taken = chosen.submissions - len(load.refused)
    cuts = quantiles(load.seconds, n=100)
    print(f"{taken} of {chosen.submissions} accepted in {seconds:.1f} s: {taken / seconds:.0f} a second")
    print(f"in the database: {kept}; lost: {taken - kept}")
    each = {name: s * 1000 / max(taken, 1) for name, s in spent.items()}
    parts = ", ".join(f"{name} {ms:.1f} ms" for name, ms in each.items())
    print(f"processor time for each: {parts}; two processors for these alone: {2000 / sum(each.values()):.0f} a second")
    print(f"answer within {cuts[49] * 1000:.0f} ms (median), {cuts[94] * 1000:.0f} ms (95th percentile)")
    for status, text in load.refused[:3]:
        print(f"refused with {status}: {text[:300]}")


if __name__ == "__main__":
    main()
