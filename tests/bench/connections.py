"""How soon the site answers while many others hold connections to it, and how many live pages it carries.

`python -m tests.bench.connections [--where embedded|proxy] [--silent 500] [--pages 1000] [--seconds 60]`

Embedded is what `make run` starts: one gunicorn process over SQLite. Proxy is Caddy with deploy/Caddyfile before two
gunicorn processes over PostgreSQL. First so many visitors say nothing, half a head or half a body, and one who asks is
timed. Then so many pages of submissions are open: each is what static/js/live.js makes of it, that is the page itself,
its event stream, and an answer fetched whenever the stream says that there is something new. Meanwhile evaluations go
through their stages and leave the queue, and one visitor asks for pages. Half of the readers have signed in.
"""

import argparse
import asyncio
import os
import re
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import httpx

from tests import servers
from tests.bench.intake import processor_seconds
from tests.proxy import behind_proxy
from tests.stack import Stack

ASKED = ("/healthz", "/problems/", "/leaderboards/")
HALVES = {
    "silent": b"",
    "half a head": b"GET /problems/ HTTP/1.1\r\nHost: localhost\r\nX-Never-Ended: ",
    "half a body": (
        b"POST /accounts/sign-in/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 500\r\n\r\nusername=a"
    ),
}
_PREPARE = """
from problems import registry
from portal.accounts import actions
from portal.submissions.actions.submitting import create_submission
from portal.submissions.uploads import bundle_from_text
from django.test import Client
user = actions.sign_up(username="reader", password="a long pass phrase")
client = Client()
client.force_login(user)
print("cookie", client.cookies["sessionid"].value)
source = registry.reference_source("allreduce")
for number in range({evaluations}):
    made = create_submission(
        author=user, problem="allreduce", profile="cpux2", backend="pytorch", mode="check",
        files=bundle_from_text(f"# {{number}}\\n" + source), visibility="public",
    )
    print("submission", made.pk)
"""
_JUDGE = """
import time
from django.utils import timezone
from portal.submissions.models import Evaluation, State
waiting = list(Evaluation.objects.filter(state=State.QUEUED).order_by("queued_at").values_list("pk", flat=True))
end = time.monotonic() + {seconds}
step = 0
while time.monotonic() < end and waiting:
    chosen = Evaluation.objects.filter(pk=waiting.pop(0))
    chosen.update(state=State.RUNNING, started_at=timezone.now(), stage="starting")
    for stage in ("verifying", "timing"):
        time.sleep(1)
        chosen.update(stage=stage)
        step += 1
    time.sleep(1)
    chosen.update(state=State.CANCELLED, finished_at=timezone.now())
    step += 2
print("changes", step)
"""


@contextmanager
def held(port: int, said: bytes, *, number: int, tls: ssl.SSLContext | None) -> Iterator[None]:
    """So many visitors who have said that much, and say no more."""
    with ExitStack() as visitors:
        for _ in range(number):
            visitor = visitors.enter_context(socket.create_connection(("localhost", port), timeout=60))
            if tls is not None:
                visitor = visitors.enter_context(tls.wrap_socket(visitor, server_hostname="localhost"))
            visitor.sendall(said)
        yield


def described(seconds: list[float]) -> str:
    """Median and worst in milliseconds."""
    return f"median {median(seconds) * 1000:.0f} ms, worst {max(seconds) * 1000:.0f} ms of {len(seconds)}"


def asked(client: httpx.Client, path: str) -> float:
    """How long one answer takes, over a connection of its own."""
    start = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - start


@dataclass
class Site:
    """A running site as one of its visitors sees it."""

    base: str
    port: int
    tls: ssl.SSLContext | None
    stack: Stack

    def client(self) -> httpx.Client:
        """A visitor whose every request opens a connection."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=self.base, verify=self.tls or True, timeout=60, limits=limits)


def measure_silence(site: Site, *, number: int) -> None:
    """Ask while others say nothing."""
    with site.client() as client:
        for path in ASKED:
            asked(client, path)
        cases = {"nobody else": (), **{name: ((said, number),) for name, said in HALVES.items()}}
        cases["all three at once"] = tuple((said, number) for said in HALVES.values())
        for name, visitors in cases.items():
            with ExitStack() as stack:
                for said, count in visitors:
                    stack.enter_context(held(site.port, said, number=count, tls=site.tls))
                for path in ASKED:
                    taken = [asked(client, path) for _ in range(20)]
                    print(f"{number if visitors else 0:5} x {name:18} {path:15} {described(taken)}", flush=True)


@dataclass
class Readers:
    """Open live pages, and what became of them."""

    opened: int = 0
    closed: int = 0
    fetched: int = 0
    failures: list[str] = field(default_factory=list)
    fetch_s: list[float] = field(default_factory=list)


async def read(client: httpx.AsyncClient, path: str, readers: Readers, gate: asyncio.Semaphore) -> None:
    """One open page: fetched, followed, and asked for what is new each time the stream says so."""
    try:
        async with gate:
            page = (await client.get(path)).raise_for_status().text
        found = re.search(r'data-etag="([^"]*)"[^>]*hx-get="([^"]*)"[^>]*data-stream="([^"]*)"', page)
        if found is None:
            readers.failures.append("a page without a stream")
            return
        etag, live, stream = (part.replace("&quot;", '"').replace("&amp;", "&") for part in found.groups())
        async with client.stream("GET", stream, timeout=httpx.Timeout(60, read=None)) as events:
            readers.opened += 1
            async for line in events.aiter_lines():
                if line == "event: changed":
                    etag = await _fetch(client, live, etag, readers)
                if line == "event: end":
                    return
        readers.closed += 1
    except httpx.HTTPError as error:
        readers.failures.append(repr(error))


async def _fetch(client: httpx.AsyncClient, live: str, etag: str, readers: Readers) -> str:
    start = time.perf_counter()
    answer = await client.get(live, headers={"If-None-Match": etag, "HX-Request": "true"})
    readers.fetch_s.append(time.perf_counter() - start)
    readers.fetched += 1
    if answer.status_code not in {200, 304}:
        readers.failures.append(f"{answer.status_code} for a live part")
    return answer.headers.get("ETag", etag)


async def measure_pages(site: Site, *, paths: list[str], pages: int, seconds: float, cookie: str) -> None:
    """Open the pages, let evaluations go through their stages, and ask meanwhile."""
    readers, gate = Readers(), asyncio.Semaphore(20)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    options = {"base_url": site.base, "verify": site.tls or True, "timeout": 60, "limits": limits}
    name = "__Host-sessionid" if site.tls else "sessionid"
    async with (
        httpx.AsyncClient(**options) as stranger,
        httpx.AsyncClient(cookies={"sessionid": cookie, name: cookie}, **options) as known,
    ):
        start = time.perf_counter()
        tasks = [
            asyncio.create_task(read((stranger, known)[at % 2], paths[at % len(paths)], readers, gate))
            for at in range(pages)
        ]
        # Two counters are watched, and the clock.
        while readers.opened + len(readers.failures) < pages and time.perf_counter() - start < 300:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        print(f"{readers.opened} of {pages} live pages open after {time.perf_counter() - start:.1f} s", flush=True)
        spent = processor_seconds(site.stack.pid("web"))
        judging = asyncio.create_task(asyncio.to_thread(_judged, site, seconds))
        taken = await _ask(site, until=judging.done)
        used = processor_seconds(site.stack.pid("web")) - spent
        print(f"meanwhile {await judging}; {readers.fetched} answers fetched; {_memory(site)}; processor {used:.1f} s")
        for path, times in taken.items():
            cut = quantiles(times, n=20)[18]
            print(f"{pages:5} live pages {path:20} {described(times)}, 95th percentile {cut * 1000:.0f} ms")
        if readers.fetch_s:
            print(f"{pages:5} live pages {'what is new':20} {described(readers.fetch_s)}")
        print(f"closed by the site: {readers.closed}; failed: {len(readers.failures)} {readers.failures[:3]}")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _judged(site: Site, seconds: float) -> str:
    return site.stack.manage("shell", "--no-imports", "-c", _JUDGE.format(seconds=seconds)).strip().splitlines()[-1]


async def _ask(site: Site, *, until: Callable[[], bool]) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {path: [] for path in ASKED}
    with site.client() as client:
        while not until():
            for path, times in taken.items():
                times.append(await asyncio.to_thread(asked, client, path))
            await asyncio.sleep(0.1)
    return taken


def _memory(site: Site) -> str:
    family = {process.pid for process in site.stack.descendants("web")}
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in family]
    kib = [int(found[1]) for text in statuses if (found := re.search(r"VmRSS:\s+(\d+)", text))]
    return f"web processes hold {' + '.join(f'{each / 1024:.0f}' for each in kib)} MB"


@contextmanager
def served(where: str, folder: Path) -> Iterator[Site]:
    """The site, embedded or behind the proxy."""
    if where == "embedded":
        with Stack(folder / "site") as stack:
            stack.migrate()
            yield Site(stack.start_web(), stack.port, None, stack)
        return
    with servers.postgresql() as database:
        url = database.create_database("connections")
        with Stack(folder / "migrating", database_url=url) as stack:
            stack.migrate()
        with behind_proxy(folder, database_url=url) as (visitor, stack):
            yield Site(f"https://localhost:{visitor.https_port}", visitor.https_port, visitor.tls(), stack)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", choices=("embedded", "proxy"), action="append")
    parser.add_argument("--silent", type=int, default=500)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--evaluations", type=int, default=200, help="how many the pages are about")
    parser.add_argument("--seconds", type=float, default=60)
    chosen = parser.parse_args()
    for where in chosen.where or ("embedded", "proxy"):
        print(f"-- {where}")
        with tempfile.TemporaryDirectory(prefix="pkb-connections-") as folder, served(where, Path(folder)) as site:
            measure_silence(site, number=chosen.silent)
            site.stack.environment["PKB_MAX_QUEUED_PER_AUTHOR"] = str(chosen.evaluations)
            code = _PREPARE.format(evaluations=chosen.evaluations)
            lines = [line.split() for line in site.stack.manage("shell", "--no-imports", "-c", code).splitlines()]
            paths = [f"/submissions/{value}/" for word, value in lines if word == "submission"]
            cookie = next(value for word, value in lines if word == "cookie")
            asyncio.run(measure_pages(site, paths=paths, pages=chosen.pages, seconds=chosen.seconds, cookie=cookie))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
