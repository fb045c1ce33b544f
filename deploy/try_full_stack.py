"""Does the whole chain work on this machine? Start all of it, submit, wait for the verdict, stop all of it.

    python deploy/try_full_stack.py --profile cpux2
    python deploy/try_full_stack.py --profile h200x4-nomc --problem allgather --backend cuda \
        --submission tests/evaluator/submissions/gpu_allgather.py --report full_stack.json

PostgreSQL, Redis, gunicorn and dispatcher run in production mode, each on a free port of the loopback
interface. The broker has one user for the site and one for the node, as docs/deploy.md says. There is no proxy, so
requests carry the headers that it would set. A node judges for the profile. A new account makes a token, sends the
submission through the API, follows it until it has ended, and looks for it on its page and on the board. Everything
lies in a folder that is removed.

It ends with 0 when the verdict is the one expected and page, board and report agree. On a machine without a network,
`--carried FOLDER` takes the site's packages, PostgreSQL and Redis from what deploy/carry-stack.sh collected there; what
the node needs is put in place by deploy/install-carried.sh.
"""

import argparse
import http.client
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, TypeVar

ROOT = Path(__file__).resolve().parent.parent
NODE = "trial"
START_SECONDS = 120
STOP_SECONDS = 30
_ZONES = Path("/usr/share/zoneinfo")
_SIGN_UP = """
from portal.accounts import actions
user = actions.sign_up(username="trial", password="{password}")
print(actions.create_token(user, name="trial", scopes=["submit", "read"], lifetime_days=1)[1])
"""

Value = TypeVar("Value")


class TrialFailure(Exception):
    """A part does not do what it should; the message names it and what to look at."""


def main() -> int:
    """Run the trial; 0 where everything was as expected."""
    chosen = arguments()
    # On a signal to end, it ends what it has started: that runs in sessions of its own and would go on.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    folder = Path(tempfile.mkdtemp(prefix="pkb-stack-"))
    folder.chmod(0o755)  # the servers run as another user
    try:
        evidence = trial(chosen, folder)
    except TrialFailure as failure:
        say(f"FAILED: {failure}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if chosen.report:
        chosen.report.write_text(json.dumps(evidence, indent=1) + "\n")
    verdict = evidence["submission"]["evaluation"]["verdict"]
    say(f"OK: {verdict} after {evidence['seconds']['verdict']:.1f} s; all processes have ended")
    return 0


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="cpux2", help="what the node judges for")
    parser.add_argument("--problem", default="allreduce", help="its slug")
    parser.add_argument("--backend", default="pytorch")
    parser.add_argument("--mode", default="ranked", choices=("check", "benchmark", "ranked"))
    parser.add_argument("--submission", type=Path, default=ROOT / "tests/evaluator/submissions/correct.py")
    parser.add_argument("--expect", default="PASSED", help="the verdict")
    parser.add_argument("--seconds", type=float, default=300, help="how long the verdict may take")
    parser.add_argument("--report", type=Path, help="where the evidence goes, as JSON")
    parser.add_argument("--carried", type=Path, help="the folder of deploy/carry-stack.sh")
    parser.add_argument(
        "--accept-weak-sandbox", action="store_true", help="ranked work although the sandbox is weaker than demanded"
    )
    return parser.parse_args()


def say(text: str) -> None:
    """Print a line for the person at the terminal, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def trial(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The chain from nothing to the verdict and back; what was seen, as it goes into the report."""
    began = time.monotonic()
    if chosen.carried:
        unpack(chosen.carried, folder)
    with Processes(folder) as processes:
        site = Site(processes, chosen)
        site.start_servers()
        site.prepare()
        site.start()
        ready_s = time.monotonic() - began
        say(f"ready after {ready_s:.1f} s")
        submission, verdict_s = judged(site, chosen)
        seen = checked(site, chosen, submission)
        processes.refuse_if_ended()
    return {
        "what": "one submission through the API of a whole site and its node on one machine (deploy/try_full_stack.py)",
        "chosen": {name: str(value) for name, value in vars(chosen).items() if name not in ("report", "carried")},
        "parts": site.versions(),
        "seconds": {"ready": round(ready_s, 1), "verdict": round(verdict_s, 1)},
        "seen": seen,
        "submission": submission,
    }


def unpack(carried: Path, folder: Path) -> None:
    """Put the carried servers and packages into the folder, and PostgreSQL's time zone where the system has none."""
    for part in ("servers", "site"):
        if not (carried / f"{part}.tar.xz").is_file():
            raise TrialFailure(f"{carried / part}.tar.xz is missing: collect it with deploy/carry-stack.sh {carried}")
        with tarfile.open(carried / f"{part}.tar.xz") as archive:
            archive.extractall(folder / part, filter="data")
    if not (_ZONES / "UTC").exists():
        say(f"{_ZONES}/UTC is missing; it is put there for PostgreSQL")
        _ZONES.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "servers" / "UTC", _ZONES / "UTC")


class Processes:
    """Starts processes with a log each, and ends them all, the last started first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        # PostgreSQL refuses to run as root; Redis needs no rights either.
        self.server_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self.server_user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._show_logs()
        for name, process in reversed(self._running.items()):
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                say(f"{name} did not end within {STOP_SECONDS} s and is killed")
            # What it may have left behind in its group ends with it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()

    def start(self, name: str, command: list[str], environment: Mapping[str, str], **identity: Any) -> None:
        """Start a process that goes on; its output goes to NAME.log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command,
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **identity,
            )

    def run(self, command: list[str], environment: Mapping[str, str], **identity: Any) -> str:
        """Run a command to its end; its output. Raises TrialFailure."""
        done = subprocess.run(
            command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, check=False, **identity
        )
        if done.returncode:
            raise TrialFailure(
                f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
            )
        return done.stdout

    def refuse_if_ended(self) -> None:
        """Raise TrialFailure where a process that should run has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise TrialFailure(f"{name} ended by itself with {process.returncode}; its log is above")

    def wait(self, condition: Callable[[], Value], *, what: str, seconds: float = START_SECONDS) -> Value:
        """The first true value of `condition`; raises TrialFailure when time is over or a process has ended."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            self.refuse_if_ended()
            if time.monotonic() > deadline:
                raise TrialFailure(f"not within {seconds:.0f} s: {what}")
            time.sleep(0.25)
        return value

    def _show_logs(self) -> None:
        for name in self._running:
            lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-15:]
            say(f"--- {name}\n" + "\n".join(lines))


def serve_as_proxy(port: int, *, upstream: int) -> None:
    """Pass the node's requests on as the proxy would that ends TLS, from a thread that ends with this process."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = {name: value for name, value in self.headers.items() if name != "Host"}
            body = self.rfile.read(int(self.headers["Content-Length"]))
            site = http.client.HTTPConnection("127.0.0.1", upstream, timeout=30)
            site.request("POST", self.path, body, headers | {"X-Forwarded-Proto": "https"})
            answer = site.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            site.close()

        def log_message(self, *_: object) -> None:
            """Say nothing: the site has a line for each."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, name="proxy", daemon=True).start()


class Site:
    """The servers, the site's processes and the node, on ports of their own."""

    def __init__(self, processes: Processes, chosen: argparse.Namespace) -> None:
        self.processes = processes
        self.chosen = chosen
        self.folder = processes.folder
        self.database_port, self.broker_port, self.port, self.proxy_port = free_ports(4)
        self.url = f"http://127.0.0.1:{self.port}"
        self._programs = {name: program(name, self.folder) for name in ("initdb", "postgres", "redis-server")}
        self._token = ""
        self._node: dict[str, str] = {}
        self._admin_password = secrets.token_urlsafe(24)
        self._bare = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "DJANGO_"))}
        self._bare["PYTHONUNBUFFERED"] = "1"
        broker = f"127.0.0.1:{self.broker_port}/0"
        self.environment = self._bare | {
            "PKB_EMBEDDED": "false",
            "PKB_DATA_DIR": str(self.folder / "data"),
            "PKB_SECRET_KEY": secrets.token_urlsafe(48),
            "PKB_DATABASE_URL": f"postgres://pkb@127.0.0.1:{self.database_port}/pkb",
            "PKB_SITE_URL": f"https://127.0.0.1:{self.port}",
            "PKB_ALLOWED_HOSTS": "127.0.0.1",
            "PKB_ACCEPT_WEAK_SANDBOX": str(chosen.accept_weak_sandbox).lower(),
            "PKB_BROKER_ADMIN_URL": f"redis://admin:{self._admin_password}@{broker}",
            "PKB_BROKER_PUBLIC_URL": f"redis://{broker}",
            "DJANGO_SETTINGS_MODULE": "portal.settings",
        }
        if chosen.carried:
            self.environment["PYTHONPATH"] = str(self.folder / "site")

    def start_servers(self) -> None:
        """PostgreSQL with an empty database, and Redis with its administrator."""
        user = self.processes.server_user
        for name in ("postgresql", "redis"):
            (self.folder / name).mkdir()
            if user:
                shutil.chown(self.folder / name, "nobody", user["group"])
        data = str(self.folder / "postgresql" / "data")
        plain = self._bare | {"HOME": str(self.folder / "postgresql")}
        self.processes.run(
            [self._programs["initdb"], "-D", data, "-U", "pkb", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
            plain,
            **user,
        )
        sockets = f"--unix_socket_directories={self.folder / 'postgresql'}"
        options = ["--listen_addresses=127.0.0.1", f"--port={self.database_port}", sockets, "--jit=off"]
        self.processes.start("postgresql", [self._programs["postgres"], "-D", data, *options], plain, **user)
        start = (ROOT / "deploy" / "redis-start.sh").read_text()  # its text: its user may not reach the checkout
        redis = {"REDIS_DATA": str(self.folder / "redis"), "PKB_BROKER_ADMIN_PASSWORD": self._admin_password}
        path = f"{Path(self._programs['redis-server']).parent}:{self._bare.get('PATH', '')}"
        self.processes.start(
            "redis",
            ["sh", "-c", start, "redis-start.sh", "--bind", "127.0.0.1", "--port", str(self.broker_port)],
            self._bare | redis | {"PATH": path},
            **user,
        )
        for name, port in (("PostgreSQL", self.database_port), ("Redis", self.broker_port)):
            self.processes.wait(lambda port=port: listens(port), what=f"{name} listens")  # type: ignore[misc]
        self.processes.wait(self._make_database, what="PostgreSQL takes a connection")

    def prepare(self) -> None:
        """Users of the broker, tables, static files, the node's key, an account and its token."""
        self.environment |= self._printed("deploy/broker_credentials.py", "site")
        self._manage("migrate", "--verbosity", "0")
        self._manage("collectstatic", "--noinput", "--verbosity", "0")
        self._node = self._printed("manage.py", "node_add", NODE)
        self._node |= self._printed("deploy/broker_credentials.py", "node", NODE)
        sign_up = _SIGN_UP.format(password=secrets.token_urlsafe(16))
        self._token = self._manage("shell", "--no-imports", "-c", sign_up).split()[-1]

    def start(self) -> None:
        """Web, dispatcher and the node; returns once the node has sent a heartbeat."""
        python = sys.executable
        web = [python, "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py", "--bind", f"127.0.0.1:{self.port}"]
        secretless = {name: value for name, value in self.environment.items() if "_ADMIN_" not in name}
        start = self.processes.start
        start("web", [*web, "--workers", "2"], secretless)
        start("dispatcher", [python, "manage.py", "dispatch"], secretless)
        serve_as_proxy(self.proxy_port, upstream=self.port)
        named = {
            "PKB_NODE_PROFILES": self.chosen.profile,
            "PKB_DATA_DIR": str(self.folder / "node"),
            "PKB_SITE_URL": f"http://127.0.0.1:{self.proxy_port}",
        }
        # The judge's ranks do not inherit PYTHONPATH: the node's packages lie in this interpreter's own environment.
        start("node", [python, "-m", "evaluator.node"], self._bare | self._node | named)
        self.processes.wait(lambda: self.ask("/readyz") is not None, what="/readyz answers with success")
        node = self.processes.wait(self._online_node, what="the node's slot is free")
        say(f"node: sandbox {node['sandbox']}, backends {', '.join(node['backends'])}")

    def ask(self, path: str, *, body: Mapping[str, Any] | None = None) -> Any:
        """The answer to a request as the proxy would pass it on: JSON decoded, else text; None where nobody answers.

        Raises:
            TrialFailure: the site answers with an error, readiness apart.
        """
        headers = {"X-Forwarded-Proto": "https", "Content-Type": "application/json", "Accept": "*/*"}
        if path.startswith("/api/"):
            headers["Authorization"] = f"Bearer {self._token}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, headers=headers)  # noqa: S310 - our own address
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
                text = response.read().decode()
                return json.loads(text) if "json" in response.headers["Content-Type"] else text
        except urllib.error.HTTPError as error:
            if path == "/readyz":
                return None
            raise TrialFailure(f"{path} answers with {error.code}: {error.read().decode()[:1000]}") from error
        except OSError:
            return None

    def versions(self) -> dict[str, str]:
        """What the parts are."""
        environment = self._bare
        return {
            "python": sys.version.split()[0],
            "postgresql": self.processes.run([self._programs["postgres"], "--version"], environment).strip(),
            "redis": self.processes.run([self._programs["redis-server"], "--version"], environment).strip(),
            "commit": self.commit(),
        }

    @staticmethod
    def commit() -> str:
        """The commit of this checkout, or that there is none."""
        answer = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        return answer.stdout.strip() or "not a checkout"

    def _online_node(self) -> dict[str, Any] | None:
        for node in self.ask("/api/v1/nodes/") or ():
            if node["is_online"] and any(slot["state"] == "free" for slot in node["slots"]):
                return dict(node)
        return None

    def _make_database(self) -> bool:
        make = (
            "import psycopg2, sys; connection = psycopg2.connect(sys.argv[1]); connection.autocommit = True; "
            "connection.cursor().execute('CREATE DATABASE pkb')"
        )
        dsn = f"host=127.0.0.1 port={self.database_port} user=pkb dbname=postgres"
        try:
            self.processes.run([sys.executable, "-c", make, dsn], self.environment)
        except TrialFailure as failure:
            if "starting up" in str(failure):
                return False
            raise
        return True

    def _manage(self, *words: str) -> str:
        return self.processes.run([sys.executable, "manage.py", *words], self.environment)

    def _printed(self, *words: str) -> dict[str, str]:
        """The variables that a command prints."""
        lines = self.processes.run([sys.executable, *words], self.environment).splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


def program(name: str, folder: Path) -> str:
    """Where a server's program is: carried, on PATH, or where Debian puts it; raises TrialFailure."""
    carried = folder / "servers" / "bin" / name
    if carried.exists():
        return str(carried)
    for path in sorted(Path("/usr/lib").glob(f"postgresql/*/bin/{name}"), reverse=True):
        return str(path)
    found = shutil.which(name)
    if found is None:
        raise TrialFailure(f"{name} is not installed; on Debian: apt-get install postgresql redis-server, or --carried")
    return found


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback interface that nobody listens on at this moment."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def listens(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def judged(site: Site, chosen: argparse.Namespace) -> tuple[dict[str, Any], float]:
    """Submit and follow to the end; the submission as the API shows it then, and the seconds it took."""
    body = {
        "problem": chosen.problem,
        "profile": chosen.profile,
        "backend": chosen.backend,
        "mode": chosen.mode,
        "visibility": "public",
        "source": chosen.submission.read_text(),
    }
    began = time.monotonic()
    path = f"/api/v1/submissions/{site.ask('/api/v1/submissions/', body=body)['id']}/"
    shown = ""

    def ended() -> dict[str, Any] | None:
        nonlocal shown
        submission = site.ask(path)
        evaluation = submission["evaluation"]
        stage = (evaluation["stage"] or {}).get("name", evaluation["state"])
        if stage != shown:
            shown = stage
            say(f"{time.monotonic() - began:6.1f} s {stage}")
        return submission if evaluation["state"] in ("finished", "cancelled") else None

    return site.processes.wait(ended, what="a verdict", seconds=chosen.seconds), time.monotonic() - began


def checked(site: Site, chosen: argparse.Namespace, submission: Mapping[str, Any]) -> dict[str, str]:
    """Compare the verdict with page, board and report, as anybody reads them; raises TrialFailure."""
    evaluation = submission["evaluation"]
    if evaluation["verdict"] != chosen.expect or evaluation["report"]["verdict"] != chosen.expect:
        raise TrialFailure(f"{chosen.expect} was expected, not {evaluation['verdict']}: {evaluation['message']}")
    seen = {"report": f"verdict {evaluation['report']['verdict']}"}
    address = f"/submissions/{submission['id']}/"
    title = evaluation["facts"]["title"]
    if title not in site.ask(address):
        raise TrialFailure(f"the page {address} does not say {title!r}")
    seen["page"] = f"says {title!r}"
    if chosen.mode == "ranked" and chosen.expect == "PASSED":
        board = site.ask(f"/api/v1/problems/{chosen.problem}/leaderboard/?profile={chosen.profile}")
        entries = [entry for entry in board["entries"] if entry["submission_id"] == submission["id"]]
        if not entries:
            raise TrialFailure(f"the board of {chosen.problem} on {chosen.profile} does not list the submission")
        seen["board"] = f"listed with score {entries[0]['score']:.4f}"
    return seen


if __name__ == "__main__":
    sys.exit(main())
