"""Visitors who say nothing, or never finish, cost the others nothing: embedded, and behind the proxy.

With a thread per connection, each eight silent ones kept everybody else waiting for five seconds: 500 of them for five
minutes. The deadlines below are far under that and far over what is needed (docs/decisions/0026).
"""

import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import psycopg2
import pytest

from tests.stack import Stack, wait_until

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


def sessions(postgres, database: str) -> int:
    """How many connections to the database there have ever been, ours included."""
    with closing(psycopg2.connect(postgres.dsn(database))) as watching, watching.cursor() as cursor:
        cursor.execute("select sessions from pg_stat_database where datname = %s", [database])
        return cursor.fetchone()[0]


def test_requests_share_connections_to_the_database(proxied, postgres):
    before = sessions(postgres, "proxied")
    for _ in range(60):
        assert proxied.get("/problems/")[0] == 200
    # Two web processes with eight threads each, and this test's own look.
    assert sessions(postgres, "proxied") - before <= 2 * 8 + 1


def test_a_visitor_who_leaves_is_no_failure_of_the_site(embedded):
    with socket.create_connection(("localhost", embedded.port), timeout=ANSWER_S) as visitor:
        visitor.sendall(b"GET /api/v1/schema/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
    # The next one is answered, and whatever the log says of the first by then is no failure.
    with socket.create_connection(("localhost", embedded.port), timeout=ANSWER_S) as visitor:
        visitor.sendall(b"GET /api/v1/problems/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b" 200 OK" in visitor.recv(100)
    wait_until(lambda: "GET /api/v1/problems/ 200 in " in embedded.log("web"), what="the second request is in the log")
    assert "GET /api/v1/schema/ 500 in " not in embedded.log("web")
    assert "Traceback" not in embedded.log("web")
