"""What a node says arrives through the proxy that ends TLS, and its key goes nowhere else."""

import os
import subprocess
import sys
from collections.abc import Iterator

import psycopg2
import pytest

from tests import servers
from tests.portal.production.conftest import ROOT
from tests.proxy import Proxied, behind_proxy

pytestmark = pytest.mark.production

REGISTER = "from portal.nodes.actions import register_node; print(register_node('alpha'))"
SAY = """
import secrets, sys
from evaluator.contract import NodeMessage, NodeStatus, SandboxLevel
from evaluator.node.site import NotReceived, Refused, Site
url, key, size = sys.argv[1:]
status = NodeStatus(node="alpha", slots=(), sandbox=SandboxLevel.FULL, backends=(), revisions={},
                    environment={"noise": secrets.token_hex(int(size) // 2)})
try:
    Site(url, name="alpha", key=key).send(NodeMessage.HEARTBEAT, status.to_json())
except (NotReceived, Refused) as error:
    print(type(error).__name__, error)
else:
    print("received")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory, postgres: servers.PostgreSQL) -> Iterator[tuple[Proxied, str]]:
    """The site behind Caddy, and the key of its node."""
    url = postgres.create_database("node_messages", template="migrated")
    with behind_proxy(tmp_path_factory.mktemp("node_messages"), database_url=url) as (proxied, stack):
        yield proxied, stack.manage("shell", "--no-imports", "-c", REGISTER).split()[-1]


def say(site: tuple[Proxied, str], *, scheme: str = "https", trusted: bool = True, size: int = 5000) -> str:
    """What a node hears that sends a heartbeat of a size, in a process of its own."""
    proxied, key = site
    port = proxied.https_port if scheme == "https" else proxied.http_port
    done = subprocess.run(
        [sys.executable, "-c", SAY, f"{scheme}://localhost:{port}", key, str(size)],
        cwd=ROOT,
        env=os.environ | ({"SSL_CERT_FILE": str(proxied.root)} if trusted else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_node_is_heard_through_the_proxy(site, postgres):
    assert say(site) == "received"
    with psycopg2.connect(postgres.dsn("node_messages")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT sandbox, seen_at IS NOT NULL FROM nodes_node")
        assert cursor.fetchall() == [("full", True)]


def test_a_site_that_cannot_prove_who_it_is_is_told_nothing(site):
    assert "CERTIFICATE_VERIFY_FAILED" in say(site, trusted=False)


def test_a_node_does_not_follow_to_another_address(site):
    heard = say(site, scheme="http")
    assert heard.startswith("NotReceived")
    assert "redirects to https://localhost" in heard


@pytest.mark.parametrize(
    ("size", "heard"),
    [(6_900_000, "Refused The message is larger than 131072 bytes."), (8_000_000, "Refused the message has")],
)
def test_the_largest_message_reaches_the_site_and_a_larger_one_is_not_sent(site, size, heard):
    """Random digits take half their size. Of a heartbeat the site says itself that it is too large."""
    assert say(site, size=size).startswith(heard)
