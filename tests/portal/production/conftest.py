"""The servers of production, each started once for all tests of this folder."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from tests import servers
from tests.proxy import Proxied, behind_proxy

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True, eq=False)
class Broker:
    """A running broker, and the two addresses that deploy/broker_credentials.py wants."""

    server: servers.RedisServer
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
def broker() -> Iterator[Broker]:
    with servers.redis() as server:
        yield Broker(server=server, admin_url=server.admin_url, public_url=f"redis://127.0.0.1:{server.port}/0")


@pytest.fixture(scope="session")
def proxied(tmp_path_factory, postgres) -> Iterator[Proxied]:
    """Caddy with deploy/Caddyfile and its own authority in front of gunicorn in production mode."""
    url = postgres.create_database("proxied", template="migrated")
    with behind_proxy(tmp_path_factory.mktemp("proxied"), database_url=url) as (answering, _):
        yield answering
