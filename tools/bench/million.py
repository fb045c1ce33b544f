"""Does the site hold with a million submissions? Every page, list and search, the intake, exports, live pages.

`make bench WHAT=million ARGS="--database-url postgres://..."` measures a PostgreSQL on this machine that
`tools.bench.demo_data` has filled; without the address it makes one and fills it. Times are taken in the server, from a
request's first work to its last byte, for one client over loopback. Beside them it prints the processor time of web and
database together. It also prints how many statements a page sent to the database, the least and the most of
all its requests.
"""

import argparse
import http.client
import json
import os
import platform
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
from html import unescape
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psycopg2

from evaluator.contract import Backend, Mode, Primitive, Verdict
from evaluator.hardware import profiles
from portal.tabular.tables import MEDIA_TYPES
from problems import registry
from tests.servers import free_ports, postgresql
from tools.bench.boards import ROOT, add_demo_data, boards_in, manage, postmaster, wait_until_ready
from tools.bench.intake import Load, processor_seconds

PROMISE_MS = 50.0
_NEXT = re.compile(r'rel="next" href="([^"]+)"')
_SIGN_IN = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from portal.accounts import actions
from portal.accounts.models import User
from django.db.models import Count
busiest = User.objects.filter(pk=(
    User.objects.annotate(n=Count("submissions")).order_by("-n").values_list("pk", flat=True)[0]
)).get()
operator, _ = User.objects.get_or_create(username="bench-operator", defaults={"is_staff": True, "is_superuser": True})
def session(user):
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY], store[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store.save()
    return store.session_key
_, token = actions.create_token(busiest, name="bench", scopes=["read", "submit", "runs:read"], lifetime_days=1)
print(busiest.username, session(busiest), session(operator), token)
"""
INTAKE_MS = 10.0
TABLES = ("leaderboards", "models", "runs", "attempts", "evaluations")
_WARM_UP = 40
_MAKE_SENDERS = """
from portal.accounts import actions
for number in range(10):
    user = actions.sign_up(username=f"bench-sender-{number}", password="a long pass phrase")
    print(actions.create_token(user, name="bench", scopes=["submit", "read"], lifetime_days=1)[1])
"""
_COUNT_SENT = """
from portal.submissions.models import Evaluation
print(Evaluation.objects.filter(submission__author__username__startswith="bench-sender-").count())
"""
_REMOVE_SENT = """
from portal.accounts.models import User
from portal.submissions.models import Evaluation, Source, Submission
sent = Submission.objects.filter(author__username__startswith="bench-sender-")
sources = list(sent.values_list("source", flat=True))
Evaluation.objects.filter(submission__in=sent).delete()
sent.delete()
Source.objects.filter(pk__in=sources, submissions=None).delete()
User.objects.filter(username__startswith="bench-sender-").delete()
"""
_WORST_PEOPLE = """
SELECT u.username FROM accounts_user u JOIN ranking_standing s ON s.author_id = u.id
GROUP BY u.id ORDER BY count(*) DESC LIMIT 20
"""


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Who asks: headers, and what is in the database for them."""

    site: str
    cookie: str = ""
    token: str = ""

    def get(self, address: str) -> tuple[int, str]:
        """Status and page."""
        connection = http.client.HTTPConnection(self.site, timeout=120)
        headers = {"Cookie": f"sessionid={self.cookie}"} if self.cookie else {}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection.request("GET", address, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        connection.close()
        return answer.status, text


@dataclass(frozen=True, kw_only=True)
class Data:
    """What addresses are made of."""

    boards: Sequence[tuple[str, str, int]]
    worst_people: Sequence[str]
    people: int
    public: Sequence[str]
    own: Sequence[str]
    draw: random.Random


Addresses = Callable[[Data, Visitor], Iterator[str]]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One line of the table: what is asked for, and by whom (anybody, author or operator)."""

    name: str
    addresses: Addresses
    who: str = "anybody"


def always(*addresses: str) -> Addresses:
    """These in turn."""

    def generate(_data: Data, _visitor: Visitor) -> Iterator[str]:
        while True:
            yield from addresses

    return generate


def for_boards(form: str, *, on_gpus: bool = False, **choices: Sequence[str]) -> Addresses:
    """Boards as often as they have entries, each with one of the `choices`: `form` names problem, profile and these."""

    def generate(data: Data, _visitor: Visitor) -> Iterator[str]:
        boards = [board for board in data.boards if not on_gpus or not board[1].startswith("cpu")]
        weights = [entries for *_, entries in boards]
        while True:
            [(problem, profile, _)] = data.draw.choices(boards, weights)
            drawn = {name: data.draw.choice(values) for name, values in choices.items()}
            yield form.format(problem=problem, profile=profile, **drawn)

    return generate


def every(form: str, **choices: Sequence[str]) -> Addresses:
    """A draw from all combinations of `choices`."""

    def generate(data: Data, _visitor: Visitor) -> Iterator[str]:
        while True:
            yield form.format(**{name: data.draw.choice(values) for name, values in choices.items()})

    return generate


def following(first: Addresses, *, pages: int = 1000) -> Addresses:
    """Page after page by the link to the next one, beginning where `first` says."""

    def generate(data: Data, visitor: Visitor) -> Iterator[str]:
        for start in first(data, visitor):
            address: str | None = start
            for _ in range(pages):
                if address is None:
                    break
                yield address
                address = _next(visitor.get(address)[1], start)

    return generate


def _next(page: str, start: str) -> str | None:
    if page.startswith("{"):
        url = json.loads(page)["next"]
        return url and "/" + url.split("/", 3)[3]
    found = _NEXT.search(page)
    return start.split("?", maxsplit=1)[0] + unescape(found[1]) if found else None


def from_data(form: str, values: Callable[[Data], Sequence[str]]) -> Addresses:
    """`form` with one of the `values` that the database has."""

    def generate(data: Data, _visitor: Visitor) -> Iterator[str]:
        while True:
            yield form.format(data.draw.choice(values(data)))

    return generate


def anybody(data: Data) -> Sequence[str]:
    """Any invented person."""
    return [f"demo-{data.draw.randrange(data.people):06d}"]


_ANY = ""
_STATES = ("queued", "building", "built", "leased", "running", "finished", "cancelled")
_PROFILES = tuple(profiles.profiles())
_WITH_ROOFLINE = tuple(name for name, profile in profiles.profiles().items() if profile.peaks)
_SLUGS = tuple(problem.slug for problem in registry.problems())
_BACKENDS = tuple(backend.value for backend in Backend)
_PRIMITIVES = tuple(primitive.value for primitive in Primitive)
_BOARD = "/problems/{problem}/leaderboard/?profile={profile}"
_FACETS = {
    "backend": (_ANY, *_BACKENDS),
    "size": (_ANY, "base", "large"),
    "primitive": (_ANY, *_PRIMITIVES),
}
_EVALUATIONS = "/admin/submissions/evaluation/?"
_ADMIN_FACETS = {
    "state__exact": _STATES,
    "verdict__exact": [verdict.value for verdict in Verdict],
    "profile": list(_PROFILES),
    "mode__exact": [mode.value for mode in Mode],
    "submission__backend__exact": list(_BACKENDS),
    "submission__is_attempt__exact": ["0", "1"],
    "problem": list(_SLUGS),
}


def admin_facets(number: int) -> Addresses:
    """The operator's list of evaluations, narrowed by so many facets at once."""

    def generate(data: Data, _visitor: Visitor) -> Iterator[str]:
        while True:
            chosen = data.draw.sample(sorted(_ADMIN_FACETS), number)
            yield _EVALUATIONS + "&".join(f"{name}={data.draw.choice(_ADMIN_FACETS[name])}" for name in chosen)

    return generate


KINDS = (
    Kind(name="home", addresses=always("/")),
    Kind(name="problem list", addresses=always("/problems/")),
    Kind(name="problem list, every profile", addresses=every("/problems/?profile={p}", p=_PROFILES)),
    Kind(name="problem", addresses=every("/problems/{s}/", s=_SLUGS)),
    Kind(name="problem, every profile", addresses=for_boards("/problems/{problem}/?profile={profile}", on_gpus=True)),
    Kind(name="board", addresses=for_boards(_BOARD)),
    Kind(
        name="board, every facet combination",
        addresses=for_boards(_BOARD + "&size={size}&backend={backend}&primitive={primitive}", **_FACETS),
    ),
    Kind(name="board, all pages of the largest", addresses=following(for_boards(_BOARD), pages=50)),
    Kind(
        name="board of a size, all pages",
        addresses=following(for_boards(_BOARD + "&size={size}", size=("base", "large")), pages=50),
    ),
    Kind(name="records of a problem", addresses=for_boards("/problems/{problem}/records/?profile={profile}")),
    Kind(name="scaling of a problem", addresses=for_boards("/problems/{problem}/scaling/")),
    Kind(name="prompt of a problem", addresses=every("/problems/{s}/prompt/", s=_SLUGS)),
    Kind(name="leaderboards", addresses=always("/leaderboards/")),
    Kind(
        name="people, all pages",
        addresses=following(every("/leaderboards/people/?profile={p}", p=_PROFILES), pages=400),
    ),
    Kind(name="person, anybody", addresses=from_data("/leaderboards/people/{}/", anybody)),
    Kind(name="person, the 20 with most", addresses=from_data("/leaderboards/people/{}/", lambda d: d.worst_people)),
    Kind(name="records, all pages", addresses=following(always("/leaderboards/records/"), pages=200)),
    Kind(name="records, every profile", addresses=every("/leaderboards/records/?profile={p}", p=_PROFILES)),
    Kind(name="still open", addresses=every("/leaderboards/open/?profile={p}", p=(_ANY, *_PROFILES))),
    Kind(name="published", addresses=always("/leaderboards/published/")),
    Kind(name="models", addresses=always("/models/")),
    Kind(name="roofline, every profile", addresses=every("/roofline/?profile={p}", p=_WITH_ROOFLINE)),
    Kind(name="taxonomy", addresses=always("/taxonomy/")),
    Kind(name="nodes", addresses=always("/nodes/")),
    Kind(name="documentation", addresses=always("/docs/", "/api/v1/")),
    Kind(name="search: words", addresses=always("/search/?q=all-reduce", "/search/?q=moe", "/search/?q=ring")),
    Kind(name="search: people", addresses=always("/search/?q=demo-0001", "/search/?q=o", "/search/?q=nobody-at-all")),
    Kind(name="public submission", addresses=from_data("/submissions/{}/", lambda d: d.public)),
    Kind(name="feed of records", addresses=always("/feeds/records.atom")),
    Kind(name="API: problems, profiles, nodes", addresses=always(*(f"/api/v1/{n}/" for n in ("problems", "profiles")))),
    Kind(
        name="API: board, every facet",
        addresses=for_boards(
            "/api/v1/problems/{problem}/leaderboard/?profile={profile}{backend}{primitive}",
            backend=(_ANY, *(f"&backend={name}" for name in _BACKENDS)),
            primitive=(_ANY, *(f"&primitive={name}" for name in _PRIMITIVES)),
        ),
        who="program",
    ),
    Kind(name="API: models, runs", addresses=always("/api/v1/models/", "/api/v1/runs/"), who="program"),
    Kind(
        name="API: own submissions, all pages",
        addresses=following(always("/api/v1/submissions/"), pages=200),
        who="program",
    ),
    Kind(
        name="API: own submissions, by facet",
        addresses=every(
            "/api/v1/submissions/?{facet}",
            facet=(
                *(f"state={state}" for state in _STATES),
                *(f"verdict={verdict.value}" for verdict in Verdict),
                *(f"problem={slug}" for slug in _SLUGS),
            ),
        ),
        who="program",
    ),
    Kind(name="API: a submission", addresses=from_data("/api/v1/submissions/{}/", lambda d: d.own), who="program"),
    Kind(name="own submissions", addresses=every("/submissions/?page={n}", n=("1", "2", "20", "last")), who="author"),
    Kind(name="own submissions, by problem", addresses=every("/submissions/?problem={s}", s=_SLUGS), who="author"),
    Kind(name="own submission", addresses=from_data("/submissions/{}/", lambda d: d.own), who="author"),
    Kind(name="submit", addresses=every("/problems/{s}/submit/", s=_SLUGS), who="author"),
    Kind(name="account", addresses=always("/accounts/"), who="author"),
    Kind(name="admin: start", addresses=always("/admin/"), who="operator"),
    Kind(name="admin: evaluations", addresses=always(_EVALUATIONS), who="operator"),
    Kind(name="admin: evaluations, one facet", addresses=admin_facets(1), who="operator"),
    Kind(name="admin: evaluations, two facets", addresses=admin_facets(2), who="operator"),
    Kind(
        name="admin: evaluations, far pages",
        addresses=always(_EVALUATIONS + "p=20", _EVALUATIONS + "period=month&p=30"),
        who="operator",
    ),
    Kind(
        name="admin: evaluations, search",
        addresses=always(_EVALUATIONS + "q=demo-000007", _EVALUATIONS + "q=nobody-at-all"),
        who="operator",
    ),
    Kind(
        name="admin: evaluation",
        addresses=from_data("/admin/submissions/submission/{}/change/", lambda d: d.own),
        who="operator",
    ),
    Kind(
        name="admin: submissions",
        addresses=always(
            "/admin/submissions/submission/",
            "/admin/submissions/submission/?backend__exact=cuda",
            "/admin/submissions/submission/?problem=allreduce",
            "/admin/submissions/submission/?q=demo-000007",
        ),
        who="operator",
    ),
    Kind(
        name="admin: people",
        addresses=always(
            "/admin/accounts/user/", "/admin/accounts/user/?q=demo-000007", "/admin/accounts/user/?is_staff__exact=1"
        ),
        who="operator",
    ),
    Kind(
        name="admin: all other lists",
        addresses=always(
            *(
                f"/admin/{name}/"
                for name in (
                    "accounts/organisation",
                    "catalog/problemswitch",
                    "nodes/node",
                    "runs/run",
                    "runs/languagemodel",
                    "submissions/gpuuse",
                    "submissions/report",
                    "submissions/profilestate",
                )
            )
        ),
        who="operator",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A served site: its address, its process, and the file in which its requests leave their lines."""

    address: str
    process: int
    log: Path

    def lines(self) -> list[dict[str, Any]]:
        """All requests so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def served(environment: Mapping[str, str], folder: Path) -> Iterator[Served]:
    """The site behind gunicorn as in production, two processes, and a clock."""
    (port,) = free_ports(1)
    log = folder / "requests.jsonl"
    command = [sys.executable, "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py", "--workers", "2"]
    command += ["--access-logfile", os.devnull, "--bind", f"127.0.0.1:{port}", "tools.bench.timed_site:application"]
    with subprocess.Popen(command, cwd=ROOT, env={**environment, "PKB_BENCH_LOG": str(log)}) as server:
        try:
            wait_until_ready(port)
            yield Served(address=f"127.0.0.1:{port}", process=server.pid, log=log)
        finally:
            server.terminate()


def server_version(url: str) -> str:
    """The database server and its version."""
    connection = psycopg2.connect(url)
    version = connection.server_version
    connection.close()
    return f"PostgreSQL {version // 10_000}.{version % 10_000}"


def data_of(url: str, *, author: str) -> Data:
    """What the database holds."""
    connection = psycopg2.connect(url)

    def column(query: str, *values: str) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(query, values or None)
            return [str(row[0]) for row in cursor.fetchall()]

    public = "SELECT id FROM submissions_submission WHERE visibility = 'public' ORDER BY created_at DESC LIMIT 100"
    own = (
        "SELECT s.id FROM submissions_submission s JOIN accounts_user u ON u.id = s.author_id "
        "WHERE u.username = %s ORDER BY s.created_at DESC LIMIT 100"
    )
    people = "SELECT count(*) FROM accounts_user WHERE username LIKE 'demo-%'"
    found = Data(
        boards=boards_in(url),
        worst_people=column(_WORST_PEOPLE),
        people=int(column(people)[0]),
        public=column(public),
        own=column(own, author),
        draw=random.Random(1),
    )
    connection.close()
    return found


def measure(
    kind: Kind, data: Data, visitor: Visitor, site: Served, *, requests: int, processes: Sequence[int]
) -> float:
    """Ask, print a line, and return the 95th percentile in milliseconds."""
    source = kind.addresses(data, visitor)
    warm = [next(source) for _ in range(4)]
    wanted = [next(source) for _ in range(requests)]
    for address in warm:
        visitor.get(address)
    before, seen = _spent(processes), len(site.lines())
    statuses = [visitor.get(address)[0] for address in wanted]
    spent_ms = (_spent(processes) - before) * 1e3 / requests
    time.sleep(0.05)  # the last line is written after the last byte
    lines = site.lines()[seen:]
    times = sorted(line["ms"] for line in lines)
    statements = [line["statements"] for line in lines]
    p95 = quantiles(times, n=20, method="inclusive")[-1]
    bad = {status for status in statuses if status != 200}
    notes = ("" if p95 <= PROMISE_MS else "  OVER 50 ms") + (f"  STATUS {bad}" if bad else "")
    print(
        f"{kind.name:34} {median(times):7.1f} {p95:7.1f} {times[-1]:7.1f} {spent_ms:7.1f}   "
        f"{min(statements):2} to {max(statements):2}{notes}",
        flush=True,
    )
    return p95


def _spent(processes: Sequence[int]) -> float:
    """Seconds of processor time of these processes and all below them."""
    return sum(map(processor_seconds, processes))


def pages(url: str, environment: Mapping[str, str], folder: Path, *, requests: int, only: str) -> int:
    """The table of pages; how many kinds were over the promise."""
    author, session, operator, token = manage(environment, "shell", "--no-imports", "-c", _SIGN_IN).split()
    data = data_of(url, author=author)
    print(f"{len(data.boards)} boards, the largest with {data.boards[0][2]} entries; load {os.getloadavg()[0]:.1f}")
    over = []
    with served(environment, folder) as site:
        visitors = {
            "anybody": Visitor(site=site.address),
            "author": Visitor(site=site.address, cookie=session),
            "operator": Visitor(site=site.address, cookie=operator),
            "program": Visitor(site=site.address, token=token),
        }
        processes = (site.process, postmaster(url))
        print(f"{'milliseconds in the server':34} {'p50':>7} {'p95':>7} {'largest':>7} {'cpu':>7}   statements")
        for kind in KINDS:
            if only in kind.name:
                p95 = measure(kind, data, visitors[kind.who], site, requests=requests, processes=processes)
                over += [kind.name] if p95 > PROMISE_MS else []
    print(f"{len(over)} of {len(KINDS)} over {PROMISE_MS:.0f} ms: {', '.join(over)}; load {os.getloadavg()[0]:.1f}")
    return len(over)


def intake(url: str, environment: Mapping[str, str], folder: Path, *, submissions: int) -> None:
    """What one submission costs web and database, and whether all are there; they are removed again."""
    manage(environment, "shell", "--no-imports", "-c", _REMOVE_SENT)  # a run that was cut off left them
    tokens = manage(environment, "shell", "--no-imports", "-c", _MAKE_SENDERS).split()
    try:
        with served(environment, folder) as site:
            address = f"http://{site.address}"
            Load(address, tokens, submissions=_WARM_UP, clients=2).run()
            processes = {"web": site.process, "PostgreSQL": postmaster(url)}
            before = {name: processor_seconds(process) for name, process in processes.items()}
            load = Load(address, tokens, submissions=submissions, clients=2, first=_WARM_UP)
            seconds = load.run()
            spent = {name: processor_seconds(process) - before[name] for name, process in processes.items()}
        taken = submissions - len(load.refused)
        kept = int(manage(environment, "shell", "--no-imports", "-c", _COUNT_SENT)) - _WARM_UP
    finally:
        manage(environment, "shell", "--no-imports", "-c", _REMOVE_SENT)
    each = {name: 1e3 * used / max(taken, 1) for name, used in spent.items()}
    parts = " + ".join(f"{name} {ms:.1f} ms" for name, ms in each.items())
    over = "" if sum(each.values()) <= INTAKE_MS else f"  OVER {INTAKE_MS:.0f} ms"
    print(f"intake: {taken} of {submissions} accepted, {kept} in the database, {taken - kept} lost; ", end="")
    print(f"{taken / seconds:.0f} a second; {parts} = {sum(each.values()):.1f} ms for each{over}", flush=True)


def exports(environment: Mapping[str, str], folder: Path) -> None:
    """The peak of memory while all public data are written, then for each table and format by itself."""
    place = folder / "exports"
    began = time.monotonic()
    command = [sys.executable, str(ROOT / "manage.py"), "make_exports"]
    child = subprocess.Popen(command, cwd=ROOT, env={**environment, "PKB_EXPORT_DIR": str(place)})
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    written = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(
        f"exports: {written / 2**20:.0f} MiB written, at most {usage.ru_maxrss / 1024:.0f} MiB of memory, "
        f"{usage.ru_utime + usage.ru_stime:.0f} s of processor time, {time.monotonic() - began:.0f} s; "
        f"status {child.returncode}",
        flush=True,
    )
    _exports_apart(environment)


def _exports_apart(environment: Mapping[str, str]) -> None:
    """A line for each table and format: memory before the first row, after a tenth of the rows and at the end."""
    print(f"{'MiB of memory':24} {'rows':>8} {'before':>7} {'tenth':>7} {'end':>7} {'written':>8}   processor")
    for table in TABLES:
        rows = 0
        for form in MEDIA_TYPES:
            command = [sys.executable, "-m", "tools.bench.export_memory", table, form, "--rows", str(rows)]
            done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            rows = found["rows"]  # known from the second format on
            print(
                f"{table + ', ' + form:24} {rows:8} {found['start']:7.0f} {found['tenth']:7.0f} {found['end']:7.0f} "
                f"{found['bytes'] / 2**20:8.1f}   {found['processor_s']:.1f} s",
                flush=True,
            )


def main() -> None:
    """Fill where asked, serve, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=100, help="of each kind")
    parser.add_argument("--database-url", default="", help="a PostgreSQL on this machine, filled by demo_data")
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    parser.add_argument("--sent", type=int, default=500, help="submissions of the intake")
    parser.add_argument("--parts", default="pages,intake,exports", help="what is measured (pages, intake, exports)")
    chosen = parser.parse_args()
    if chosen.database_url:
        run(chosen.database_url, chosen)
        return
    with postgresql() as server:
        run(server.create_database("million"), chosen, fill=("--submissions", str(chosen.submissions)))


def run(url: str, chosen: argparse.Namespace, *, fill: Sequence[str] = ()) -> None:
    """Measure the database at `url`."""
    folder = Path(tempfile.mkdtemp(prefix="pkb-bench-"))
    environment = os.environ | {
        "PKB_SECRET_KEY": "for-measurements-only",
        "PKB_DATA_DIR": str(folder),
        "PKB_DATABASE_URL": url,
        "PKB_API_ANONYMOUS_RATE": "1000000/min",
        "PKB_MAX_QUEUED_PER_AUTHOR": "1000000",
        "PKB_NEW_ACCOUNT_DAYS": "0",
    }
    try:
        manage(environment, "migrate", "--verbosity", "0")
        manage(environment, "collectstatic", "--noinput", "--verbosity", "0")
        if fill:
            print(add_demo_data(environment, *fill))
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors, {server_version(url)}")
        parts = chosen.parts.split(",")
        if "pages" in parts:
            pages(url, environment, folder, requests=chosen.requests, only=chosen.only)
        if "intake" in parts:
            intake(url, environment, folder, submissions=chosen.sent)
        if "exports" in parts:
            exports(environment, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
