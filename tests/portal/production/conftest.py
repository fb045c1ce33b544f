"""The servers of production, each started once for all tests of this folder."""

import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from tests import servers
from tests.stack import Stack, wait_until

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True, eq=False)
class Broker:
    """A running broker, and the two addresses that deploy/broker_credentials.py wants."""

    server: servers.RedisServer | servers.RabbitMQ
    admin_url: str
    public_url: str

    def credentials(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the operator's script with `arguments`."""
        urls = {"PKB_BROKER_ADMIN_URL": self.admin_url, "PKB_BROKER_PUBLIC_URL": self.public_url}
        return subprocess.run(
            [sys.executable, "deploy/broker_credentials.py", *arguments],
            cwd=ROOT,
            env=os.environ | urls | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def url_for(self, *arguments: str) -> str:
        """The URL that the script prints for a new user."""
        done = self.credentials(*arguments)
        assert done.returncode == 0, done.stderr
        name, _, url = done.stdout.strip().partition("=")
        assert name == "PKB_BROKER_URL"
        return url

    @cached_property
    def site_url(self) -> str:
        """The URL of the site's user, made once: making it again would void the password that others hold."""
        return self.url_for("site")

    @cache  # noqa: B019 - a handful of brokers in a whole session
    def node_url(self, name: str) -> str:
        """The URL of a node's user, made once."""
        return self.url_for("node", name)


@pytest.fixture(scope="session")
def postgres() -> Iterator[servers.PostgreSQL]:
    """PostgreSQL with a database `migrated`, which is there to be copied."""
    with servers.postgresql() as server:
        url = server.create_database("migrated")
        environment = os.environ | {"PKB_DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "portal.settings"}
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
        yield server


@pytest.fixture(scope="session")
def redis_broker() -> Iterator[Broker]:
    with servers.redis() as server:
        yield Broker(server=server, admin_url=server.admin_url, public_url=f"redis://127.0.0.1:{server.port}/0")


@pytest.fixture(scope="session")
def rabbit_broker() -> Iterator[Broker]:
    with servers.rabbitmq() as server:
        yield Broker(server=server, admin_url=server.admin_url, public_url=f"amqp://127.0.0.1:{server.port}/pkb")


@pytest.fixture(scope="session", params=["redis", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each of the two brokers."""
    return request.getfixturevalue("redis_broker" if request.param == "redis" else "rabbit_broker")


@pytest.fixture(scope="session")
def proxied(tmp_path_factory, postgres) -> Iterator["Proxied"]:
    """Caddy with deploy/Caddyfile and its own authority in front of gunicorn in production mode."""
    folder = tmp_path_factory.mktemp("proxied")
    https_port, http_port = servers.free_ports(2)
    environment = {
        "PKB_EMBEDDED": "false",
        "PKB_ALLOWED_HOSTS": "localhost,127.0.0.1",
        "PKB_TRUSTED_ORIGINS": f"https://localhost:{https_port}",
    }
    url = postgres.create_database("proxied", template="migrated")
    with Stack(folder / "site", database_url=url, environment=environment) as stack:
        stack.start_web(workers=2)
        variables = {
            "PKB_DOMAIN": "localhost",
            "PKB_TLS": "internal",
            "PKB_UPSTREAM": f"127.0.0.1:{stack.port}",
            "PKB_HTTP_PORT": str(http_port),
            "PKB_HTTPS_PORT": str(https_port),
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        with (folder / "caddy.log").open("wb") as log:
            caddy = subprocess.Popen(
                ["caddy", "run", "--config", str(ROOT / "deploy" / "Caddyfile")],
                env=os.environ | variables,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            root = folder / "data" / "caddy" / "pki" / "authorities" / "local" / "root.crt"
            answering = Proxied(https_port=https_port, http_port=http_port, root=root, upstream=stack.port)
            wait_until(answering.answers, what=f"Caddy answers\n{(folder / 'caddy.log').read_text()}", seconds=60)
            yield answering
        finally:
            caddy.terminate()
            caddy.wait(20)


class Proxied:
    """A visitor who trusts Caddy's authority."""

    def __init__(self, *, https_port: int, http_port: int, root: Path, upstream: int) -> None:
        self.https_port, self.http_port, self.root, self.upstream = https_port, http_port, root, upstream

    def get(self, path: str, *, scheme: str = "https", **headers: str) -> tuple[int, dict[str, str], str]:
        """Status, headers and text; redirects are not followed."""
        port = self.https_port if scheme == "https" else self.http_port
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(self.root))), _Stay
        )
        request = urllib.request.Request(f"{scheme}://localhost:{port}{path}", headers=headers)
        try:
            with opener.open(request, timeout=20) as response:
                return response.status, dict(response.headers), response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read().decode()

    def answers(self) -> bool:
        try:
            return self.root.exists() and self.get("/readyz")[0] == 200
        except (urllib.error.URLError, OSError):
            return False


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None
