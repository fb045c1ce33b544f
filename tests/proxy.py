"""The site as production has it: Caddy with deploy/Caddyfile before gunicorn, and a visitor who trusts its root."""

import os
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import servers
from tests.stack import Stack, wait_until

ROOT = Path(__file__).resolve().parent.parent


class Proxied:
    """A visitor who trusts Caddy's authority."""

    def __init__(self, *, https_port: int, http_port: int, root: Path, upstream: int) -> None:
        self.https_port, self.http_port, self.root, self.upstream = https_port, http_port, root, upstream

    def get(self, path: str, *, scheme: str = "https", **headers: str) -> tuple[int, dict[str, str], str]:
        """Status, headers and text; redirects are not followed."""
        port = self.https_port if scheme == "https" else self.http_port
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=self.tls()), _Stay)
        request = urllib.request.Request(f"{scheme}://localhost:{port}{path}", headers=headers)
        try:
            with opener.open(request, timeout=20) as response:
                return response.status, dict(response.headers), response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read().decode()

    def answers(self) -> bool:
        """Whether site and database are there behind it."""
        try:
            return self.root.exists() and self.get("/readyz")[0] == 200
        except (urllib.error.URLError, OSError):
            return False

    def tls(self) -> ssl.SSLContext:
        """What a client needs to believe it."""
        return ssl.create_default_context(cafile=str(self.root))


@contextmanager
def behind_proxy(folder: Path, *, database_url: str) -> Iterator[tuple[Proxied, Stack]]:
    """Start gunicorn in production mode over a migrated database, and Caddy in front of it."""
    https_port, http_port = servers.free_ports(2)
    environment = {
        "PKB_EMBEDDED": "false",
        "PKB_ALLOWED_HOSTS": "localhost,127.0.0.1",
        "PKB_TRUSTED_ORIGINS": f"https://localhost:{https_port}",
    }
    with Stack(folder / "site", database_url=database_url, environment=environment) as stack:
        stack.start_web(workers=2)
        root = folder / "data" / "caddy" / "pki" / "authorities" / "local" / "root.crt"
        visitor = Proxied(https_port=https_port, http_port=http_port, root=root, upstream=stack.port)
        with _caddy(folder, visitor):
            yield visitor, stack


@contextmanager
def _caddy(folder: Path, visitor: Proxied) -> Iterator[None]:
    variables = {
        "PKB_DOMAIN": "localhost",
        "PKB_TLS": "internal",
        "PKB_UPSTREAM": f"127.0.0.1:{visitor.upstream}",
        "PKB_HTTP_PORT": str(visitor.http_port),
        "PKB_HTTPS_PORT": str(visitor.https_port),
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    log = folder / "caddy.log"
    with log.open("wb") as file:
        command = ["caddy", "run", "--config", str(ROOT / "deploy" / "Caddyfile")]
        caddy = subprocess.Popen(command, env=os.environ | variables, stdout=file, stderr=subprocess.STDOUT)
    try:
        wait_until(visitor.answers, what=f"Caddy answers\n{log.read_text()}", seconds=60)
        yield
    finally:
        caddy.terminate()
        try:
            caddy.wait(20)
        except subprocess.TimeoutExpired:  # it waits for live pages that are still open
            caddy.kill()
            caddy.wait(20)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None
