"""A restart and a reload of web under the ports that pkb-web.socket holds: visitors wait, and nobody is refused."""

import http.client
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stack import ROOT, Stack, wait_until

UNITS = ROOT / "deploy" / "systemd"
# What systemd does with a socket unit: the descriptors from 3 on are the sockets, and they are for this process.
_ACTIVATED = """
import os, sys
numbers, command = [int(each) for each in sys.argv[1].split(",")], sys.argv[2:]
copies = [os.dup(number) for number in numbers]
for place, copy in enumerate(copies, start=3):
    os.dup2(copy, place)
    os.set_inheritable(place, True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(copies))}
os.execv(sys.executable, [sys.executable, "-m", *command])
"""


class Web:
    """Starts gunicorn as the unit does, with sockets that stay open between its processes."""

    def __init__(self, stack: Stack, sockets: list[socket.socket], log: Path) -> None:
        self._sockets, self._log = sockets, log
        metrics = {"PKB_METRICS_LISTEN": "127.0.0.1:%d" % sockets[1].getsockname()[1]}  # noqa: UP031 - short
        self._environment = stack.environment | metrics
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        numbers = [each.fileno() for each in self._sockets]
        [command] = re.findall(r"^ExecStart=\S+/(gunicorn .*)$", (UNITS / "pkb-web.service").read_text(), re.MULTILINE)
        words = command.replace("--workers 3", "--workers 1").split()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _ACTIVATED, ",".join(map(str, numbers)), *words],
                cwd=ROOT,
                env=self._environment,
                pass_fds=numbers,
                stdout=log,
                stderr=log,
            )

    def tell(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> None:
        assert self._process is not None
        self._process.wait(60)

    def count(self, text: str) -> int:
        return self._log.read_text().count(text)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)


class Visitors:
    """Ask again and again, over a connection each time, and count what comes back."""

    def __init__(self, port: int) -> None:
        self.answers: Counter[object] = Counter()
        self._port = port
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(3)]

    def _ask(self) -> None:
        while not self._end.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
            try:
                connection.request("GET", "/healthz")
                self.answers[connection.getresponse().status] += 1
            except (OSError, http.client.HTTPException) as error:
                self.answers[repr(error)] += 1
            finally:
                connection.close()

    @contextmanager
    def asking(self):
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._end.set()
            for thread in self._threads:
                thread.join(120)

    def wait_for_more(self) -> None:
        """Until some were answered after this moment."""
        before = self.answers.total()
        wait_until(lambda: self.answers.total() > before + 10, what=lambda: f"answers: {self.answers}")


@pytest.fixture
def web(tmp_path):
    stack = Stack(tmp_path / "site")
    stack.manage("prepare", "--static", "--verbosity", "0")
    sockets = [socket.create_server(("127.0.0.1", 0), backlog=100) for _ in range(2)]
    started = Web(stack, sockets, tmp_path / "web.log")
    started.start()
    try:
        yield started, *(each.getsockname()[1] for each in sockets)
    finally:
        started.stop()
        for each in sockets:
            each.close()


def test_nobody_is_refused_while_web_restarts_or_reloads(web):
    server, port, metrics_port = web
    visitors = Visitors(port)
    with visitors.asking():
        visitors.wait_for_more()
        server.tell(15)
        server.wait()
        server.start()
        visitors.wait_for_more()
        booted = server.count("Booting worker")
        server.tell(1)
        wait_until(lambda: server.count("Booting worker") > booted, what="a worker of the new version starts")
        wait_until(lambda: server.count("Worker exiting") >= 2, what="the one of the old version ends")
        visitors.wait_for_more()
    assert set(visitors.answers) == {200}
    connection = http.client.HTTPConnection("127.0.0.1", metrics_port, timeout=60)
    connection.request("GET", "/metrics")
    assert "pkb_http_request_seconds_count" in connection.getresponse().read().decode()
    connection.close()


def test_the_unit_has_its_ports_from_the_socket_unit():
    ports = re.findall(r"^ListenStream=(\S+)$", (UNITS / "pkb-web.socket").read_text(), re.MULTILINE)
    unit = (UNITS / "pkb-web.service").read_text()
    assert ports == ["127.0.0.1:8000", "127.0.0.1:9101"]
    assert f"PKB_METRICS_LISTEN={ports[1]}" in unit
    assert "Requires=pkb-web.socket" in unit
    assert "--bind" not in unit
