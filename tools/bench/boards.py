"""How long the boards' pages take with a million submissions in PostgreSQL.

`python -m tools.bench.boards [--submissions 1000000] [--requests 200]` starts a PostgreSQL of its own and fills it by
`tools.bench.demo_data`. It serves the database with gunicorn as in production, and requests every kind of page, one
request after the other over loopback. Times are those that the client sees, from opening the connection to the last
byte. Beside them it prints the processor time per request of web server and database, which other work on the machine
hardly changes. `--database-url` measures a database that `demo_data` has filled before.
"""

import argparse
import gzip
import html
import http.client
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import psycopg2

from tests.servers import free_ports, postgresql

ROOT = Path(__file__).resolve().parents[2]
PROMISE_MS = 50.0
START_SECONDS = 60
NEXT = re.compile(r'rel="next" href="([^"]+)"')


@dataclass(frozen=True)
class Site:
    """A served site: its port, and the boards in its database as (problem, profile, entries), largest first."""

    port: int
    boards: tuple[tuple[str, str, int], ...]

    def get(self, address: str) -> tuple[float, str]:
        """Milliseconds and the page."""
        start = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", address)
        response = connection.getresponse()
        text = response.read().decode()
        elapsed_ms = (time.perf_counter() - start) * 1e3
        connection.close()
        if response.status != 200:
            raise RuntimeError(f"{address} answered {response.status}")
        return elapsed_ms, text


def cpu_seconds(roots: Sequence[int]) -> float:
    """Processor time that these processes and all below them have used, to the nanosecond."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1])
            # Thread by thread: the process's own file counts only its first thread, and another thread serves the
            # pages.
            tasks = (path / "task").glob("*/schedstat")
            used[int(path.name)] = sum(int(task.read_text().split()[0]) for task in tasks)
        except OSError:
            continue  # it has ended meanwhile
    total = 0
    for process, nanoseconds in used.items():
        ancestor = process
        while ancestor not in roots and ancestor in parents:
            ancestor = parents[ancestor]
        total += nanoseconds if ancestor in roots else 0
    return total / 1e9


def asked(site: Site, address: str, processes: Sequence[int]) -> tuple[float, float, str]:
    """Milliseconds as the client sees them, milliseconds of processor time, and the page."""
    before = cpu_seconds(processes)
    elapsed_ms, text = site.get(address)
    return elapsed_ms, (cpu_seconds(processes) - before) * 1e3, text


def manage(environment: Mapping[str, str], *arguments: str) -> str:
    """Run a management command; its output."""
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def add_demo_data(environment: Mapping[str, str], *arguments: str) -> str:
    """Fill the configured database with invented submissions; how many there are."""
    command = [sys.executable, "-m", "tools.bench.demo_data", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def served(environment: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """The site behind gunicorn, two workers; its port and its process."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py", "--workers", "2"]
    with subprocess.Popen([*command, "--bind", f"127.0.0.1:{port}"], cwd=ROOT, env=environment) as server:
        try:
            wait_until_ready(port)
            yield port, server.pid
        finally:
            server.terminate()


def wait_until_ready(port: int) -> None:
    """Return when the site answers."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            Site(port, ()).get("/readyz")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def boards_in(url: str) -> tuple[tuple[str, str, int], ...]:
    """Every board with its number of entries, the largest first."""
    connection = psycopg2.connect(url)
    with connection.cursor() as cursor:
        cursor.execute("SELECT problem, profile, entries FROM ranking_board ORDER BY entries DESC")
        found = tuple(cursor.fetchall())
    connection.close()
    return found


def postmaster(url: str) -> int:
    """The process of the database server, which has to run on this machine."""
    connection = psycopg2.connect(url)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        ((backend,),) = cursor.fetchall()
    parent = int(Path(f"/proc/{backend}/stat").read_text().rsplit(")", 1)[1].split()[1])
    connection.close()
    return parent


def first_pages(site: Site, draw: random.Random) -> Iterator[str]:
    """Boards, one as likely as another."""
    while True:
        problem, profile, _ = draw.choice(site.boards)
        yield f"/problems/{problem}/leaderboard/?profile={profile}"


def facets(site: Site, draw: random.Random) -> Iterator[str]:
    """Boards of one backend at one size."""
    while True:
        problem, profile, _ = draw.choice([board for board in site.boards if not board[1].startswith("cpu")])
        size, backend = draw.choice(("", "base", "large")), draw.choice(("", "cuda", "triton", "pytorch"))
        yield f"/problems/{problem}/leaderboard/?profile={profile}&size={size}&backend={backend}"


def pages_of_the_largest(site: Site, _draw: random.Random) -> Iterator[str]:
    """The largest boards, page after page to the end."""
    while True:
        for problem, profile, _ in site.boards[:5]:
            address: str | None = f"/problems/{problem}/leaderboard/?profile={profile}"
            while address:
                yield address
                address = following(site, address)


def pages_of_people(site: Site, _draw: random.Random) -> Iterator[str]:
    """Everybody, page after page."""
    while True:
        address: str | None = "/leaderboards/people/?profile=h200x8"
        while address:
            yield address
            address = following(site, address)


def following(site: Site, address: str) -> str | None:
    """Where the page's link to the next one leads."""
    found = NEXT.search(site.get(address)[1])
    return address.split("?", maxsplit=1)[0] + html.unescape(found[1]) if found else None


def per_problem(suffix: str) -> Callable[[Site, random.Random], Iterator[str]]:
    """Pages below a problem."""

    def addresses(site: Site, draw: random.Random) -> Iterator[str]:
        while True:
            problem, profile, _ = draw.choice(site.boards)
            yield f"/problems/{problem}/{suffix}?profile={profile}"

    return addresses


def always(address: str) -> Callable[[Site, random.Random], Iterator[str]]:
    """One page again and again."""

    def addresses(_site: Site, _draw: random.Random) -> Iterator[str]:
        while True:
            yield address

    return addresses


KINDS: dict[str, Callable[[Site, random.Random], Iterator[str]]] = {
    "board, first page": first_pages,
    "board, by size and backend": facets,
    "board, all pages of the largest": pages_of_the_largest,
    "people, all pages": pages_of_people,
    "overview": always("/leaderboards/"),
    "still open": always("/leaderboards/open/"),
    "latest records": always("/leaderboards/records/"),
    "records of a problem": per_problem("records/"),
    "scaling of a problem": per_problem("scaling/"),
    "problem": always("/problems/allreduce/"),
    "problem list": always("/problems/"),
    "home": always("/"),
    "search": always("/search/?q=all-reduce"),
    "search for people": always("/search/?q=demo-0001"),
    "person": always("/leaderboards/people/demo-000001/"),
    "feed": always("/feeds/records.atom"),
}


def measure(site: Site, *, requests: int, processes: Sequence[int]) -> None:
    """Ask for every kind of page and print what it took."""
    draw = random.Random(1)
    print(f"{'page':34} {'p50':>8} {'p95':>8} {'largest':>8} {'cpu p50':>8} {'cpu p95':>8}   size (compressed)")
    for kind, addresses in KINDS.items():
        source = addresses(site, draw)
        for _ in range(10):
            site.get(next(source))
        wanted = [next(source) for _ in range(requests)]
        taken = [asked(site, address, processes) for address in wanted]
        times, spent = (sorted(column) for column in list(zip(*taken, strict=True))[:2])
        texts = [text.encode() for *_, text in taken[:20]]
        plain, packed = median(map(len, texts)) / 1024, median(len(gzip.compress(text)) for text in texts) / 1024
        p95 = quantiles(times, n=20, method="inclusive")[-1]
        broken = "" if p95 <= PROMISE_MS or "board" not in kind else "   PROMISE BROKEN"
        seen = f"{median(times):6.1f}ms {p95:6.1f}ms {times[-1]:6.1f}ms"
        used = f"{median(spent):6.1f}ms {quantiles(spent, n=20, method='inclusive')[-1]:6.1f}ms"
        print(f"{kind:34} {seen} {used}   {plain:.0f} KiB ({packed:.0f}){broken}", flush=True)


def main() -> None:
    """Fill, serve, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=1_000_000)
    parser.add_argument("--authors", type=int, default=20_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--database-url", default="", help="a PostgreSQL on this machine, filled by demo_data")
    chosen = parser.parse_args()
    if chosen.database_url:
        run(chosen.database_url, requests=chosen.requests, fill=())
        return
    with postgresql() as server:
        amount = ("--submissions", str(chosen.submissions), "--authors", str(chosen.authors))
        run(server.create_database("boards"), requests=chosen.requests, fill=amount)


def run(url: str, *, requests: int, fill: Sequence[str]) -> None:
    """Serve the database at `url`, filled first where `fill` says how, and measure."""
    data_dir = tempfile.mkdtemp(prefix="pkb-bench-")
    environment = os.environ | {
        "PKB_SECRET_KEY": "for-measurements-only",
        "PKB_DATA_DIR": data_dir,
        "PKB_DATABASE_URL": url,
    }
    try:
        manage(environment, "migrate", "--verbosity", "0")
        manage(environment, "collectstatic", "--noinput", "--verbosity", "0")
        if fill:
            print(add_demo_data(environment, *fill))
        boards = boards_in(url)
        print(f"{len(boards)} boards, the largest with {boards[0][2]} entries; load {os.getloadavg()[0]:.1f}")
        with served(environment) as (port, process):
            measure(Site(port, boards), requests=requests, processes=(process, postmaster(url)))
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    finally:
        shutil.rmtree(data_dir)


if __name__ == "__main__":
    main()
