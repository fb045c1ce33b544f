"""What the client repeats after 503 or a connection that ends, against a listener that is away for one call."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pkb.errors import Refused, Unreachable
from pkb.transport import LIMITS, Transport
from pkb.version import VERSION


@pytest.fixture
def away_once() -> Iterator[HTTPServer]:
    """Answers 503 with Retry-After to the first call, and 200 to those after it; `asked` holds their methods.

    With `hangs_up` it ends the connection of the first call without an answer.
    """

    class Listener(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.server.asked.append(self.command)
            self.close_connection = True
            if self.server.hangs_up and len(self.server.asked) == 1:
                return
            self.send_response(503 if len(self.server.asked) == 1 else 200)
            self.send_header("Retry-After", "0")
            self.send_header("X-PKB-Version", self.server.version)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = _answer  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Listener)
    server.asked, server.version, server.hangs_up = [], VERSION, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def site(away_once) -> Transport:
    return Transport(f"http://127.0.0.1:{away_once.server_port}", patience_s=30)


@pytest.mark.parametrize(("method", "headers"), [("GET", {}), ("POST", {"Idempotency-Key": "k"})])
def test_what_is_safe_to_repeat_is_repeated_after_503(site, away_once, method, headers):
    assert site.request(method, "submissions/", json={}, headers=headers).status_code == 200
    assert away_once.asked == [method, method]


def test_a_write_without_a_key_is_not_repeated_after_503(site, away_once):
    # Its row may be there: the site's connection to the database may have broken in the middle of the COMMIT.
    with pytest.raises(Refused) as refused:
        site.request("POST", "submissions/", json={})
    assert (refused.value.status, refused.value.retry_after_s) == (503, 0)
    assert away_once.asked == ["POST"]


def test_what_is_safe_is_repeated_after_a_connection_that_ended(site, away_once):
    away_once.hangs_up = True
    assert site.request("GET", "problems/").status_code == 200
    assert away_once.asked == ["GET"] * 2


@pytest.mark.parametrize("hangs_up", [True, False])
def test_a_download_is_begun_again(site, away_once, hangs_up):
    away_once.hangs_up = hangs_up
    with site.download("runs/1/export/") as pieces:
        assert b"".join(pieces) == b"{}"
    assert away_once.asked == ["GET"] * 2


def test_a_write_without_a_key_is_not_repeated_after_a_connection_that_ended(site, away_once):
    away_once.hangs_up = True
    with pytest.raises(Unreachable, match="Server disconnected"):
        site.request("POST", "submissions/", json={})
    assert away_once.asked == ["POST"]


def test_the_site_keeps_idle_connections_for_longer_than_proxy_and_client():
    folder = Path(__file__).parents[2] / "deploy"
    [proxy_s] = re.findall(r"keepalive (\d+)s", (folder / "Caddyfile").read_text())
    [site_s] = re.findall(r"^keepalive = (\d+)", (folder / "gunicorn.conf.py").read_text(), re.MULTILINE)
    assert max(int(proxy_s), LIMITS.keepalive_expiry) < int(site_s)


@pytest.mark.parametrize(("version", "times"), [("99.0.1", 1), (f"{VERSION}1", 0)])
def test_a_site_of_another_version_is_named_once(away_once, version, times):
    away_once.version, said = version, []
    site = Transport(f"http://127.0.0.1:{away_once.server_port}", patience_s=30, say=said.append)
    site.request("GET", "problems/")
    site.request("GET", "problems/")
    assert sum(f"has version 99.0.1 and this is pkb {VERSION}" in sentence for sentence in said) == times
