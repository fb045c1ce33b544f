"""Visitors who say nothing, or never finish, cost the others nothing: embedded, and behind the proxy.

With a thread per connection, each eight silent ones kept everybody else waiting for five seconds: 500 of them for five
minutes. The deadlines below are far under that and far over what is needed (docs/decisions/0026).
"""

import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.stack import Stack

pytestmark = pytest.mark.production

SILENT = 500
ANSWER_S = 20.0
HALVES = {
    "silent": b"",
    "half a head": b"GET /problems/ HTTP/1.1\r\nHost: localhost\r\nX-Never-Ended: ",
    "half a body": (
        b"POST /accounts/sign-in/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 500\r\n\r\nusername=a"
    ),
}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory) -> Iterator[Stack]:
    """The web server as `make run` has it."""
    with Stack(tmp_path_factory.mktemp("embedded") / "site") as stack:
        stack.migrate()
        stack.start_web()
        yield stack


@contextmanager
def held(port: int, said: bytes, *, tls: ssl.SSLContext | None = None) -> Iterator[None]:
    """So many visitors who have said that much, and say no more."""
    with ExitStack() as visitors:
        for _ in range(SILENT):
            visitor = visitors.enter_context(socket.create_connection(("localhost", port), timeout=ANSWER_S))
            if tls is not None:
                visitor = visitors.enter_context(tls.wrap_socket(visitor, server_hostname="localhost"))
            visitor.sendall(said)
        yield


@pytest.mark.parametrize("said", HALVES.values(), ids=HALVES)
def test_five_hundred_silent_visitors_keep_nobody_waiting(embedded, said):
    with held(embedded.port, said):
        for path in ("/healthz", "/problems/", "/leaderboards/"):
            with urllib.request.urlopen(f"{embedded.url}{path}", timeout=ANSWER_S) as response:
                assert response.status == 200


@pytest.mark.parametrize("said", HALVES.values(), ids=HALVES)
def test_nor_do_they_behind_the_proxy(proxied, said):
    tls = ssl.create_default_context(cafile=str(proxied.root))
    with held(proxied.https_port, said, tls=tls):
        for path in ("/healthz", "/problems/"):
            assert proxied.get(path)[0] == 200
