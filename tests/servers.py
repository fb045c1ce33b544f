"""Real servers for tests, each in a folder of its own on a free port: PostgreSQL, Redis, Prometheus.

    with postgresql() as database, redis() as broker:
        ...

A server can be killed as by a crash and started again in the middle of a test. PostgreSQL refuses to run as root, so as
root every server runs as the user that its Debian package made.
"""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import psycopg2
from redis import Redis
from redis.exceptions import RedisError

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 240
"""RabbitMQ takes ten seconds on an idle machine. A server that has ended is not waited for."""


class ServerFailure(Exception):
    """A server is not installed, does not start or does not end; the text holds the end of its log."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on at this moment, all different."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Server(ABC):
    """One server process and its folder."""

    user: str
    """The user of its Debian package, whom it runs as where we are root."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.folder = Path(tempfile.mkdtemp(prefix=f"pkb-{type(self).__name__.lower()}-"))
        self.process: subprocess.Popen[bytes] | None = None
        self._hand_over(self.folder)

    @abstractmethod
    def command(self) -> list[str]:
        """What starts the server in the foreground."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it answers."""

    def environment(self) -> Mapping[str, str]:
        """Variables for the server beside ours."""
        return {}

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> Self:
        """Start the server and wait until it answers; raises ServerFailure."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=os.environ | {"HOME": str(self.folder)} | self.environment(),
                start_new_session=True,
                **self._identity(),
            )
        self._wait_until(self.is_ready, "answer")
        return self

    def kill(self) -> None:
        """End the server at once, as by a crash: kill -9 of its whole process group."""
        if self.process is None:
            return
        _signal_group(self.process.pid, signal.SIGKILL)
        self.process.wait()
        _wait_until_gone(self.process.pid)
        self.process = None

    def stop(self) -> None:
        """End the server in order, and for good."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            with suppress(subprocess.TimeoutExpired):  # killed below
                self.process.wait(20)
        self.kill()

    stop_signal: signal.Signals = signal.SIGTERM

    def remove(self) -> None:
        """End the server and delete its folder; nothing of it is needed any more, so it is not asked to end."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command: str) -> str:
        """Run one of the server's own programs as its user; its standard output."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=os.environ | {"HOME": str(self.folder)} | self.environment(),
            capture_output=True,
            text=True,
            check=False,
            **self._identity(),
        )
        if done.returncode:
            raise ServerFailure(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        """A file in the server's folder that it may read and change."""
        path = self.folder / name
        path.write_text(text)
        self._hand_over(path)
        return path

    def _identity(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        account = pwd.getpwnam(self.user)
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def _hand_over(self, path: Path) -> None:
        if os.geteuid() == 0:
            account = pwd.getpwnam(self.user)
            os.chown(path, account.pw_uid, account.pw_gid)

    def _wait_until(self, condition: Callable[[], bool], verb: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            ended = self.process is None or self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                log = self.log.read_text(errors="replace")[-3000:]
                self.remove()
                raise ServerFailure(f"{self.command()[0]} does not {verb}; its log ends with:\n{log}")
            time.sleep(0.05)


class PostgreSQL(Server):
    """A cluster without write-ahead guarantees switched off: what is committed survives a kill."""

    user = "postgres"
    stop_signal = signal.SIGINT  # "fast": ends sessions instead of waiting for them

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.data = self.folder / "data"
        programs = _program("initdb").parent
        self.server = str(programs / "postgres")
        self.run(
            str(programs / "initdb"),
            "-D",
            str(self.data),
            "-U",
            "pkb",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "-N",
        )

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            "shared_buffers": "64MB",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [self.server, "-D", str(self.data), *options]

    def is_ready(self) -> bool:
        try:
            psycopg2.connect(self.dsn("postgres")).close()
        except psycopg2.OperationalError:
            return False
        return True

    def dsn(self, database: str) -> str:
        """How libpq reaches a database of this cluster."""
        return f"host=127.0.0.1 port={self.port} user=pkb dbname={database}"

    def url(self, database: str) -> str:
        """The same as PKB_DATABASE_URL wants it."""
        return f"postgres://pkb@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, *, template: str = "template0") -> str:
        """Make a database, a copy of `template`; returns its URL."""
        connection = psycopg2.connect(self.dsn("postgres"))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        connection.close()
        return self.url(name)


class TLSServer(Server):
    """A server that listens on `tls_port` as well, with a certificate for `localhost` that nobody trusts by default."""

    def __init__(self, port: int, *, tls_port: int) -> None:
        super().__init__(port)
        self.tls_port = tls_port
        self.certificate = self.folder / "server.crt"
        self.key = self.folder / "server.key"
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        files = ["-keyout", str(self.key), "-out", str(self.certificate)]
        self.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *names)


class RedisServer(TLSServer):
    """A Redis as production starts it: a restart finds it empty, but for its users."""

    user = "redis"

    def command(self) -> list[str]:
        _program("redis-server")
        tls = ("--tls-port", str(self.tls_port), "--tls-auth-clients", "no")
        files = ("--tls-cert-file", str(self.certificate), "--tls-key-file", str(self.key))
        # Its text, not its path: the server's user may not be able to read where the checkout lies.
        start = (ROOT / "deploy" / "redis-start.sh").read_text()
        return ["sh", "-c", start, "redis-start.sh", "--bind", "127.0.0.1", "--port", str(self.port), *tls, *files]

    def environment(self) -> Mapping[str, str]:
        return {"REDIS_DATA": str(self.folder), "PKB_BROKER_ADMIN_PASSWORD": "admin-secret"}

    def is_ready(self) -> bool:
        try:
            return bool(self.admin().ping())
        except RedisError:
            return False

    @property
    def admin_url(self) -> str:
        return f"redis://admin:admin-secret@127.0.0.1:{self.port}/0"

    def admin(self) -> Redis:
        """A client that may do everything."""
        return Redis.from_url(self.admin_url)

    def break_connections(self, user: str) -> None:
        """End every connection of `user`, who may connect again at once."""
        self.admin().execute_command("CLIENT", "KILL", "USER", user)


class Prometheus(Server):
    """A Prometheus with the configuration and the rules given as text; it scrapes and evaluates every second."""

    user = "prometheus"

    def __init__(self, port: int, *, configuration: str, rules: str) -> None:
        super().__init__(port)
        self.write("alerts.yml", rules)
        self.configuration = self.write("prometheus.yml", configuration)

    def command(self) -> list[str]:
        options = {
            "config.file": str(self.configuration),
            "storage.tsdb.path": str(self.folder / "data"),
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        return [str(_program("prometheus")), *(f"--{name}={value}" for name, value in options.items())]

    def is_ready(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=30).close()
        except OSError:
            return False
        return True

    def ask(self, path: str, **parameters: str) -> Any:
        """The data that its API answers with; raises AssertionError with its error where it refuses."""
        address = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error


@contextmanager
def prometheus(*, configuration: str, rules: str) -> Iterator[Prometheus]:
    """A running Prometheus."""
    yield from _running(Prometheus(*free_ports(1), configuration=configuration, rules=rules))


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """A running PostgreSQL."""
    server = PostgreSQL(*free_ports(1))
    yield from _running(server)


@contextmanager
def redis() -> Iterator[RedisServer]:
    """A running Redis."""
    port, tls_port = free_ports(2)
    yield from _running(RedisServer(port, tls_port=tls_port))


S = TypeVar("S", bound=Server)


def _running(server: S) -> Iterator[S]:
    try:
        yield server.start()
    finally:
        server.remove()


def _program(name: str) -> Path:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
    if found:
        return Path(found)
    for path in sorted(Path("/usr/lib").glob(f"postgresql/*/bin/{name}"), reverse=True):
        return path
    raise ServerFailure(f"{name} is not installed; `make test` installs it where it may (Debian, as root)")


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _wait_until_gone(group: int) -> None:
    """Wait for the last process of a group: PostgreSQL's helpers notice their parent's death a moment later."""
    deadline = time.monotonic() + 20
    while _is_alive(group):
        if time.monotonic() > deadline:
            raise ServerFailure(f"process group {group} does not end")
        time.sleep(0.02)


def _is_alive(group: int) -> bool:
    """Whether a process of the group still runs; one that ended and was not yet reaped by its parent does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, process_group = stat.read_text(errors="replace").rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue  # it ended while we looked
        if int(process_group) == group and state not in "ZX":
            return True
    return False
