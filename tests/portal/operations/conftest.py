"""A site at work with metrics and JSON lines: one submission judged, by real processes."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.portal.factories import SOLUTION
from tests.servers import free_ports
from tests.stack import ROOT, Stack, wait_until

MAKE_TOKEN = """
from portal.accounts import actions
from portal.accounts.models import User
user = User.objects.create_user("secretive-person", password="a long pass phrase")
print(actions.create_token(user, name="tests", scopes=["submit", "read"], lifetime_days=1)[1])
"""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A stack with its metrics ports by process, and one submission that was judged."""

    stack: Stack
    ports: dict[str, int]
    token: str
    submission: dict[str, Any]
    request_id: str
    node_environment: dict[str, str]

    def metrics(self, name: str) -> str:
        """What the process `name` exposes to Prometheus."""
        address = f"http://127.0.0.1:{self.ports[name]}/metrics"
        with urllib.request.urlopen(address, timeout=30) as response:
            return str(response.read().decode())

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The JSON lines of a process."""
        return [json.loads(line) for line in self.stack.log(name).splitlines() if line.startswith("{")]


def submit(url: str, token: str, source: str) -> tuple[dict[str, Any], str]:
    """The answer of the API, and the identifier of the request."""
    body = {"problem": "allreduce", "profile": "cpux2", "mode": "check", "source": source}
    request = urllib.request.Request(
        f"{url}/api/v1/submissions/",
        data=json.dumps(body).encode(),
        # An identifier from outside is not taken over: it could be chosen to equal somebody else's.
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json", "X-Request-ID": "forged"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response), response.headers["X-Request-ID"]


def state_of(url: str, token: str, submission: str) -> str:
    """The state of its evaluation."""
    address = f"{url}/api/v1/submissions/{submission}/"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return str(json.load(response)["evaluation"]["state"])


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One for the modules whose tests leave it as it is."""
    with monitored_site(tmp_path_factory.mktemp("monitored")) as started:
        yield started


@contextmanager
def monitored_site(directory: Path) -> Iterator[Site]:
    """A site of one node that has judged one submission."""
    names = ("web", "dispatcher", "alpha")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    environment = {
        "PKB_LOG_FORMAT": "json",
        "PKB_METRICS_LISTEN": f"127.0.0.1:{ports['web']}",
        "PKB_NODE_SILENT_SECONDS": "20",  # heartbeats come late on a busy machine
    }
    with Stack(directory / "site", environment=environment) as stack:
        stack.migrate()
        token = _shell(stack, MAKE_TOKEN)
        url = stack.start_web(workers=2, metrics_port=ports["web"])
        stack.start_dispatcher(environment={"PKB_METRICS_LISTEN": f"127.0.0.1:{ports['dispatcher']}"})
        node = {"PKB_NODE_LOG_FORMAT": "json", "PKB_NODE_METRICS_LISTEN": f"127.0.0.1:{ports['alpha']}"}
        stack.start_node("alpha", environment=node)
        answer, request_id = submit(url, token, SOLUTION)
        wait_until(
            lambda: state_of(url, token, answer["id"]) == "finished",
            what=lambda: f"a verdict\n{stack.log('alpha')[-3000:]}\n{stack.log('web')[-3000:]}",
            seconds=120,
        )
        site = Site(
            stack=stack, ports=ports, token=token, submission=answer, request_id=request_id, node_environment=node
        )
        # The report's receipt and the free slot come after the verdict.
        wait_until(lambda: "\npkb_node_outbox_reports 0.0" in site.metrics("alpha"), what="the report's receipt")
        free = 'pkb_slots{node="alpha",profile="cpux2",state="free"} 1.0'
        wait_until(lambda: free in site.metrics("web"), what="the slot is free")
        yield site


def _shell(stack: Stack, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", program],
        cwd=ROOT,
        env=stack.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def _quick_pages(settings):
    """Static addresses without the manifest that only `collectstatic` writes."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
