"""The site's processes for real, in a folder of their own: web, dispatcher and nodes.

`stack` is a fixture over the database of the test itself, so that a test sees with Django's models what the processes
do. Tests with other parts make a `Stack` with their own `database_url` and `broker_url`:

    with Stack(tmp_path, database_url="postgres://...", broker_url="redis://...") as stack:
        stack.migrate()
        stack.start_all()
"""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import pytest
from django.db import connection

ROOT = Path(__file__).resolve().parent.parent
START_S = 180.0
VERDICT_S = 180.0

Value = TypeVar("Value")


def wait_until(condition: Callable[[], Value], *, what: str | Callable[[], str], seconds: float = VERDICT_S) -> Value:
    """The first true value of `condition`; fails the test with `what` when there is none in time.

    A function for `what` is called only then, so that a log in it has been written up to the end.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:.0f} s: {what() if callable(what) else what}")


class Process(NamedTuple):
    """A process, distinguished from a later one with the same number by its start (in clock ticks after boot)."""

    pid: int
    started: int


def alive(processes: set[Process]) -> set[Process]:
    """Those that still run."""
    return processes & _everyone().keys()


def _everyone() -> dict[Process, int]:
    """Every running process of the machine with its parent's number; zombies have ended."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            # The name, in parentheses, may hold anything; what follows it is separated by spaces (proc(5)).
            fields = (
                (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if entry.name.isdecimal()
                else []
            )
        except OSError:
            continue
        if fields and fields[0] not in "ZX":
            found[Process(int(entry.name), int(fields[19]))] = int(fields[1])
    return found


class Stack:
    """Starts, kills and ends processes of the site; a context manager that leaves none behind."""

    def __init__(
        self,
        data_dir: Path,
        *,
        database_url: str = "",
        broker_url: str = "filesystem://",
        environment: dict[str, str] | None = None,
        node_keys: dict[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.node_keys: dict[str, str] = dict(node_keys or {})
        """Keys by node; those of a database that was restored can be given."""
        self.root = ROOT
        """The folder whose code is started from now on: another one holds another version."""
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        data_dir.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "DJANGO_"))}
        self.environment = kept | {
            "PKB_DATA_DIR": str(data_dir),
            "PKB_SECRET_KEY": secrets.token_urlsafe(32),
            "PKB_DATABASE_URL": database_url or f"sqlite:///{data_dir / 'pkb.sqlite3'}",
            "PKB_BROKER_URL": broker_url,
            "PKB_SITE_URL": self.url,
            "PKB_LEASE_SECONDS": "6",
            "PKB_NODE_SILENT_SECONDS": "6",
            "PKB_NODE_HEARTBEAT_SECONDS": "1",
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "PYTHONUNBUFFERED": "1",
            **(environment or {}),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all()

    def manage(self, *arguments: str) -> str:
        """Run a management command to its end; its output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"manage.py {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def migrate(self) -> None:
        """Make the tables, where the database is not the test's own."""
        self.manage("migrate", "--verbosity", "0")

    def start_all(self) -> None:
        """Web, dispatcher and one node with a cpux2 slot."""
        self.start_web()
        self.start_dispatcher()
        self.start_node("alpha")

    def start_dispatcher(self, name: str = "dispatcher", *, environment: dict[str, str] | None = None) -> None:
        """The process that hands out work."""
        self._start(name, ["manage.py", "dispatch"], environment)

    def start_node(
        self,
        name: str,
        *,
        profiles: str = "cpux2",
        module: str = "evaluator.node",
        environment: dict[str, str] | None = None,
    ) -> None:
        """A node's process; the node is registered the first time."""
        if name not in self.node_keys:
            printed = dict(line.split("=", 1) for line in self.manage("node_add", name).splitlines())
            self.node_keys[name] = printed["PKB_NODE_KEY"]
        node = {"PKB_NODE_NAME": name, "PKB_NODE_KEY": self.node_keys[name], "PKB_NODE_PROFILES": profiles}
        self._start(name, ["-m", module], node | (environment or {}))

    def start_web(self, *, workers: int = 1, metrics_port: int | None = None, is_awaited: bool = True) -> str:
        """The web server; the address, once it answers where it `is_awaited`. Static files are collected first."""
        if "web" in self._processes:
            return self.url
        if not (self.data_dir / "static").is_dir():
            self.manage("collectstatic", "--noinput", "--verbosity", "0")
        options = ["--bind", f"127.0.0.1:{self.port}", "--workers", str(workers)]
        if metrics_port is not None:
            options += ["--bind", f"127.0.0.1:{metrics_port}"]
        self._start("web", ["-m", "gunicorn", "--config", "deploy/gunicorn.conf.py", *options])
        if is_awaited:
            wait_until(
                self._answers, what=lambda: f"the site answers at {self.url}\n{self.log('web')}", seconds=START_S
            )
        return self.url

    def kill(self, name: str) -> None:
        """End a process the hard way (SIGKILL), without a chance to clean up."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def kill_with_children(self, name: str) -> None:
        """End a process and everything that it started at once, as a supervisor does or a machine that loses power."""
        process = self._processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def register_nodes(self, names: Sequence[str]) -> None:
        """Register many nodes in one process; `start_node` does it for one."""
        code = "from portal.nodes.actions import register_node\n"
        printed = self.manage(
            "shell", "--no-imports", "-c", code + f"for name in {list(names)}: print(register_node(name))"
        )
        self.node_keys |= dict(zip(names, printed.split(), strict=True))

    def stop(self, name: str, *, seconds: float = 120) -> int:
        """Ask a process to end (SIGTERM) and wait for it; its exit status."""
        process = self._processes[name]
        process.terminate()
        status = process.wait(seconds)
        del self._processes[name]
        return status

    def pause(self, name: str) -> None:
        """Freeze a process."""
        self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a frozen process go on."""
        self._processes[name].send_signal(signal.SIGCONT)

    def pid(self, name: str) -> int:
        """The number of a running process."""
        return self._processes[name].pid

    def descendants(self, name: str) -> set["Process"]:
        """Every process below the one called `name`, through however many generations."""
        everyone = _everyone()
        family = {self.pid(name)}
        while more := {process.pid for process, parent in everyone.items() if parent in family} - family:
            family |= more
        return {process for process in everyone if process.pid in family - {self.pid(name)}}

    def ended(self) -> list[str]:
        """The processes that have ended by themselves, which none should."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def log(self, name: str) -> str:
        """What the process has printed, over all its starts."""
        path = self.data_dir / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def stop_all(self) -> None:
        """End every process; one that does not go within ten seconds is killed."""
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def _start(self, name: str, arguments: list[str], environment: dict[str, str] | None = None) -> None:
        with (self.data_dir / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.root,
                env=self.environment | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@pytest.fixture
def stack(transactional_db, tmp_path):
    """A stack on the test's own database and a broker in a folder; nothing is started yet."""
    with Stack(tmp_path / "site", database_url=own_database_url()) as started:
        yield started


def own_database_url() -> str:
    """The address of the database that the test itself uses."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{settings['NAME']}"
    credentials = f"{settings['USER']}:{settings['PASSWORD']}" if settings["PASSWORD"] else settings["USER"]
    return f"postgres://{credentials}@{settings['HOST']}:{settings['PORT']}/{settings['NAME']}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
