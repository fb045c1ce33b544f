"""How long a whole run takes to upload and store, on SQLite and PostgreSQL, and how large its exports are.

`python -m tools.bench.runs [--samples 10] [--source-bytes 4000]` starts the web server over each database. It sends all
problems times so many samples in one request of JSON Lines, and sends that request again, so that every line is a
repetition. Then it fetches the exports. Nothing is judged: sources are stored and queued.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from problems import registry
from tests import servers
from tools.bench.boards import served

ROOT = Path(__file__).resolve().parents[2]
_MAKE_VENDOR = """
from portal.accounts import actions
user = actions.sign_up(username="vendor", password="a long pass phrase")
print(actions.create_token(user, name="bench", scopes=["runs:read", "runs:write"], lifetime_days=1)[1])
"""


def upload_of(samples: int, source_bytes: int) -> bytes:
    """Every problem with so many samples, each source different and about so large."""
    parts = []
    for problem in registry.problems():
        header = f"def solution({', '.join(problem.parameter_names)}):\n"
        for sample in range(samples):
            lines = [f"    value_{number} = {number} + {sample}\n" for number in range(source_bytes // 30)]
            source = f"{header}{''.join(lines)}    return None\n"
            parts.append(json.dumps({"problem": problem.slug, "sample": sample, "source": source}) + "\n")
    return "".join(parts).encode()


class Caller:
    """A vendor's program."""

    def __init__(self, port: int, token: str) -> None:
        self.address = f"127.0.0.1:{port}"
        self.headers = {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> tuple[float, bytes]:
        """Seconds and body of an answer, which has to be a success."""
        connection = http.client.HTTPConnection(self.address, timeout=300)
        start = time.perf_counter()
        connection.request(
            method, f"/api/v1/{path}", body, {**self.headers, **({"Content-Type": kind} if kind else {})}
        )
        answer = connection.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - start
        connection.close()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {content[:500]!r}")
        return seconds, content


def manage(environment: Mapping[str, str], *arguments: str) -> str:
    """Run a management command; its output."""
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def measure(name: str, environment: Mapping[str, str], body: bytes) -> None:
    """Upload over one database and print what it took."""
    manage(environment, "migrate", "-v0")
    token = manage(environment, "shell", "-v0", "-c", _MAKE_VENDOR).splitlines()[-1]
    with served(environment) as (port, _):
        caller = Caller(port, token)
        wishes = json.dumps({"model": "bench", "mode": "best_of_k", "profile": "cpux2", "k": 10}).encode()
        run = json.loads(caller.call("POST", "runs/", wishes, "application/json")[1])["id"]
        for again in ("first", "again"):
            seconds, answer = caller.call("POST", f"runs/{run}/attempts/bulk/", body, "application/x-ndjson")
            counts = {key: value for key, value in json.loads(answer).items() if key != "results"}
            print(f"{name}: upload of {len(body) / 1e6:.1f} MB, {again}: {seconds:.2f} s, {counts}")
        print(f"{name}: the run with its figures: {caller.call('GET', f'runs/{run}/')[0] * 1000:.0f} ms")
        for kind in ("csv", "jsonl"):
            seconds, content = caller.call("GET", f"runs/{run}/export/?format={kind}")
            print(f"{name}: export as {kind}: {len(content):,} bytes in {seconds * 1000:.0f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--source-bytes", type=int, default=4000)
    chosen = parser.parse_args()
    body = upload_of(chosen.samples, chosen.source_bytes)
    with tempfile.TemporaryDirectory() as folder, servers.postgresql() as database:
        shared = {**os.environ, "PKB_SECRET_KEY": "bench", "PKB_DATA_DIR": folder}
        measure("SQLite", shared, body)
        measure("PostgreSQL", {**shared, "PKB_DATABASE_URL": database.create_database("runs")}, body)


if __name__ == "__main__":
    main()
