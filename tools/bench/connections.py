"""How soon the site answers while many others hold connections to it, and how many live pages it carries.

`python -m tools.bench.connections [--where embedded|proxy] [--silent 500] [--pages 1000] [--seconds 60]`

Embedded is what `make run` starts: one gunicorn process over SQLite. Proxy is Caddy with deploy/Caddyfile before two
gunicorn processes over PostgreSQL. First so many clients send nothing, half a head or half a body, and the requests of
one more are timed. Then so many pages of submissions are open. Each does what static/js/live.js does: it loads the page
and its event stream, and fetches the live part whenever the stream reports a change. Meanwhile evaluations go through
their stages and leave the queue, and one visitor requests pages. Half of the readers have signed in.
"""

import argparse
import asyncio
import html
import multiprocessing
import os
import re
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import httpx

from tests import servers
from tests.proxy import behind_proxy
from tests.stack import Stack
from tools.bench.intake import processor_seconds

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
from portal.submissions.actions.submit import create_submission
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
    print("submission", made.submission.pk)
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


@dataclass(frozen=True)
class Address:
    """Where the site is, and the authority that vouches for it."""

    base: str
    port: int
    authority: str | None = None

    def tls(self) -> ssl.SSLContext | None:
        """What a client needs to believe it."""
        return ssl.create_default_context(cafile=self.authority) if self.authority else None

    def client(self) -> httpx.Client:
        """A visitor whose every request opens a connection."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=self.base, verify=self.tls() or True, timeout=60, limits=limits)


def measure_silence(site: Address, *, number: int) -> None:
    """Ask while others say nothing."""
    tls = site.tls()
    with site.client() as client:
        for path in ASKED:
            asked(client, path)
        cases = {"nobody else": (), **{name: ((said, number),) for name, said in HALVES.items()}}
        cases["all three at once"] = tuple((said, number) for said in HALVES.values())
        for name, visitors in cases.items():
            with ExitStack() as stack:
                for said, count in visitors:
                    stack.enter_context(held(site.port, said, number=count, tls=tls))
                for path in ASKED:
                    taken = [asked(client, path) for _ in range(20)]
                    print(f"{number if visitors else 0:5} x {name:18} {path:15} {described(taken)}", flush=True)


@dataclass
class Readers:
    """Open live pages, and what became of them."""

    opened: int = 0
    closed: int = 0
    failures: list[str] = field(default_factory=list)
    fetch_s: list[float] = field(default_factory=list)


class Reader:
    """Opens live pages with one cookie, or none: fetches, follows, and asks for what is new when the stream says so."""

    def __init__(self, site: Address, readers: Readers, *, cookie: str = "") -> None:
        self._site, self._readers, self._tls = site, readers, site.tls()
        self._cookies = {("__Host-sessionid" if site.authority else "sessionid"): cookie} if cookie else {}
        # The site closes idle connections after two seconds; a browser sends a request again if its connection closes
        # at that time.
        limits = httpx.Limits(keepalive_expiry=1)
        self._client = httpx.AsyncClient(
            base_url=site.base, verify=self._tls or True, timeout=60, cookies=self._cookies, limits=limits
        )

    async def read(self, path: str, gate: asyncio.Semaphore) -> None:
        """One open page, until its evaluation has ended."""
        try:
            async with gate:
                page = (await self._client.get(path)).raise_for_status().text
            found = re.search(r'data-etag="([^"]*)"[^>]*hx-get="([^"]*)"[^>]*data-stream="([^"]*)"', page)
            if found is None:
                raise ValueError("a page without a stream")  # noqa: TRY301 - counted like any other failure
            etag, live, stream = (html.unescape(part) for part in found.groups())
            async for event in self._events(stream):
                if event == "event: changed":
                    etag = await self._fetch(live, etag)
                if event == "event: end":
                    return
            self._readers.closed += 1
        except (httpx.HTTPError, OSError, ValueError) as error:
            self._readers.failures.append(repr(error))

    async def _events(self, stream: str) -> AsyncIterator[str]:
        """The lines of an event stream, over a bare connection: a pool with a thousand of them measures itself."""
        receive, send = await asyncio.open_connection("localhost", self._site.port, ssl=self._tls)
        send.write(f"GET {stream} HTTP/1.1\r\nHost: localhost:{self._site.port}\r\n\r\n".encode())
        if b" 200 " not in (status := await receive.readline()):
            raise ValueError(f"a stream that is answered {status!r}")
        self._readers.opened += 1
        try:
            while line := await receive.readline():
                yield line.decode().strip()
        finally:
            send.close()

    async def _fetch(self, live: str, etag: str) -> str:
        start = time.perf_counter()
        answer = await self._client.get(live, headers={"If-None-Match": etag, "HX-Request": "true"})
        self._readers.fetch_s.append(time.perf_counter() - start)
        if answer.status_code not in {200, 304}:
            raise ValueError(f"{answer.status_code} for a live part")
        return answer.headers.get("ETag", etag)


async def measure_pages(
    site: Address, stack: Stack, *, paths: list[str], pages: int, seconds: float, cookie: str
) -> None:
    """Open the pages, let evaluations go through their stages, and ask meanwhile from a process of its own."""
    readers, gate = Readers(), asyncio.Semaphore(20)
    kinds = Reader(site, readers), Reader(site, readers, cookie=cookie)
    start = time.perf_counter()
    tasks = [asyncio.create_task(kinds[at % 2].read(paths[at % len(paths)], gate)) for at in range(pages)]
    # Two counters are watched, and the clock.
    while readers.opened + len(readers.failures) < pages and time.perf_counter() - start < 300:  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    print(f"{readers.opened} of {pages} live pages open after {time.perf_counter() - start:.1f} s", flush=True)
    spent, before = processor_seconds(stack.pid("web")), len(readers.fetch_s)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        visiting = asyncio.get_running_loop().run_in_executor(apart, visit, site, seconds)
        changes = await asyncio.to_thread(_judged, stack, seconds)
        taken = await visiting
    used = processor_seconds(stack.pid("web")) - spent
    fetched = len(readers.fetch_s) - before
    print(
        f"in {seconds:.0f} s {changes}; {fetched} answers fetched; {_memory(stack)}; their processor time {used:.1f} s"
    )
    for path, times in taken.items():
        print(f"{pages:5} live pages {path:20} {described(times)}, 95th percentile {quantiles(times, n=20)[18]:.3f} s")
    print(f"{pages:5} live pages {'what is new':20} {described(readers.fetch_s[before:])}")
    print(f"closed by the site: {readers.closed}; failed: {len(readers.failures)} {readers.failures[:3]}")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def visit(site: Address, seconds: float) -> dict[str, list[float]]:
    """Ask for pages again and again, as one visitor does who has none open."""
    taken: dict[str, list[float]] = {path: [] for path in ASKED}
    end = time.monotonic() + seconds
    with site.client() as client:
        while time.monotonic() < end:
            for path, times in taken.items():
                times.append(asked(client, path))
            time.sleep(0.1)
    return taken


def _judged(stack: Stack, seconds: float) -> str:
    return stack.manage("shell", "--no-imports", "-c", _JUDGE.format(seconds=seconds)).strip().splitlines()[-1]


def _memory(stack: Stack) -> str:
    family = {process.pid for process in stack.descendants("web")}
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in family]
    kib = [int(found[1]) for text in statuses if (found := re.search(r"VmRSS:\s+(\d+)", text))]
    return f"web processes hold {' + '.join(f'{each / 1024:.0f}' for each in kib)} MB"


@contextmanager
def served(where: str, folder: Path) -> Iterator[tuple[Address, Stack]]:
    """The site, embedded or behind the proxy."""
    if where == "embedded":
        with Stack(folder / "site") as stack:
            stack.migrate()
            yield Address(stack.start_web(), stack.port), stack
        return
    with servers.postgresql() as database:
        url = database.create_database("connections")
        with Stack(folder / "migrating", database_url=url) as stack:
            stack.migrate()
        with behind_proxy(folder, database_url=url) as (visitor, stack):
            yield Address(f"https://localhost:{visitor.https_port}", visitor.https_port, str(visitor.root)), stack


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
        with tempfile.TemporaryDirectory(prefix="pkb-connections-") as folder, served(where, Path(folder)) as served_at:
            site, stack = served_at
            measure_silence(site, number=chosen.silent)
            stack.environment |= {"PKB_NEW_ACCOUNT_DAYS": "0", "PKB_MAX_QUEUED_PER_AUTHOR": str(chosen.evaluations)}
            code = _PREPARE.format(evaluations=chosen.evaluations)
            lines = [line.split() for line in stack.manage("shell", "--no-imports", "-c", code).splitlines()]
            paths = [f"/submissions/{value}/" for word, value in lines if word == "submission"]
            cookie = next(value for word, value in lines if word == "cookie")
            options = {"paths": paths, "pages": chosen.pages, "seconds": chosen.seconds, "cookie": cookie}
            asyncio.run(measure_pages(site, stack, **options))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
