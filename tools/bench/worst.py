"""What texts made for it cost the site, and how long another page waits meanwhile.

`make bench WHAT=worst [ARGS="--give-up-s 200"]` serves a site with SQLite and one web process, as `make run` does. It
asks what anybody with an account can ask: a page with 40,000 empty lines in CUDA, and the preview of an import of empty
lines. Lines that repeat are compared once, by 24 readers who leave after a second, and in a draft. Then comes a page
for each of the worst texts of the tests. Beside every case one visitor asks for the list of problems again and
again. It prints the processor time of all the site's web processes, the time of the answer, and the longest wait of
that visitor.
"""

import argparse
import io
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.portal.worst_texts import TEXTS
from tests.stack import Stack
from tools.bench.intake import processor_seconds

HEAD = "def solution(tensor):\n    return tensor\n"
LINES, FILES, READERS = 3900, 63, 24
_AUTHOR = """
from django.test import Client
from portal.accounts import actions
user = actions.sign_up(username="author", password="a long pass phrase")
client = Client()
client.force_login(user)
scopes = ["submit", "read", "runs:read", "runs:write"]
print(client.cookies["sessionid"].value, actions.create_token(user, name="bench", scopes=scopes, lifetime_days=1)[1])
"""


class Site:
    """A served site and an author in it."""

    def __init__(self, stack: Stack, *, give_up_s: float) -> None:
        session, token = stack.manage("shell", "--no-imports", "-c", _AUTHOR).split()[-2:]
        stack.start_web()
        self._web = stack.pid("web")
        self._give_up_s = give_up_s
        self.author = httpx.Client(base_url=stack.url, timeout=give_up_s, headers={"Authorization": f"Bearer {token}"})
        self.signed_in = httpx.Client(base_url=stack.url, timeout=give_up_s, cookies={"sessionid": session})
        self.anybody = httpx.Client(base_url=stack.url, timeout=give_up_s)

    def submit(self, files: dict[str, str]) -> str:
        """The page of a new public submission."""
        form = {"problem": "allreduce", "profile": "cpux2", "backend": "pytorch", "mode": "check"}
        archive = {"file": ("s.zip", packed({"solution.py": HEAD, **files}), "application/zip")}
        path = "/api/v1/submissions/"
        made = self.author.post(path, data={**form, "visibility": "public"}, files=archive)
        if made.status_code != 201:
            raise RuntimeError(made.text)
        identifier = made.json()["id"]
        self.author.post(f"{path}{identifier}/cancel/", json={}).raise_for_status()  # so many may wait at a time
        return f"/submissions/{identifier}/"

    def measure(self, title: str, ask: Callable[[], object]) -> None:
        """Ask, and print what it cost."""
        before, began = processor_seconds(self._web), time.perf_counter()
        with self._another_visitor() as waits:
            try:
                outcome = ask()
            except httpx.HTTPError as error:
                outcome = type(error).__name__
            took_s = time.perf_counter() - began
            self._idle()
        used_s = processor_seconds(self._web) - before
        print(
            f"{title:32} {outcome!s:16} {took_s:7.2f} s  processor {used_s:7.2f} s  wait {max(waits):7.2f} s",
            flush=True,
        )

    @contextmanager
    def _another_visitor(self) -> Iterator[list[float]]:
        waits: list[float] = []
        has_ended = threading.Event()

        def ask() -> None:
            while not has_ended.wait(0.2):
                began = time.perf_counter()
                with suppress(httpx.HTTPError), httpx.Client(timeout=self._give_up_s) as visitor:
                    visitor.get(str(self.anybody.base_url.join("/problems/")))
                waits.append(time.perf_counter() - began)

        with ThreadPoolExecutor(1) as apart:
            asking = apart.submit(ask)
            try:
                yield waits
            finally:
                has_ended.set()
                asking.result()

    def _idle(self) -> None:
        """Wait until the processes have next to nothing to do but answer the visitor, or until it is given up."""
        deadline = time.monotonic() + self._give_up_s
        while time.monotonic() < deadline:
            before = processor_seconds(self._web)
            time.sleep(2)
            if processor_seconds(self._web) - before < 1:
                return


def packed(files: dict[str, str]) -> bytes:
    """An archive of these texts."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return raw.getvalue()


def repeated(mark: str) -> dict[str, str]:
    """Files of which every second line is the same and every other one differs by `mark`."""
    return {f"f{number}.h": f"0\n{mark}\n" * (LINES // 2) for number in range(FILES)}


def leave_early(site: Site, page: str) -> str:
    """Readers who leave after a second."""

    def leave(_reader: int) -> None:
        with suppress(httpx.HTTPError):
            httpx.get(str(site.anybody.base_url.join(page)), timeout=1)

    with ThreadPoolExecutor(READERS) as readers:
        list(readers.map(leave, range(READERS)))
    return f"{READERS} left"


def measure(site: Site) -> None:
    """Every case."""
    page = site.submit({"x.cu": "a" + "\n" * 40_000})
    site.measure("empty lines in CUDA", lambda: site.anybody.get(page).status_code)
    archive = packed({"solutions_pytorch_bf16_h200_2_x_y/1_allreduce.py": "(" + "\n" * 400_000})
    files = {"file": ("tree.zip", archive, "application/zip")}
    preview = "/api/v1/runs/import/preview/"
    site.measure("preview of empty lines", lambda: site.author.post(preview, files=files).status_code)
    text, changes = {"source": HEAD + "0\nd\n" * (LINES // 2)}, "/problems/allreduce/submit/changes/"
    site.submit({"solution.py": HEAD + "0\ne\n" * (LINES // 2)})
    site.signed_in.get("/problems/allreduce/submit/")
    sent = {"X-CSRFToken": site.signed_in.cookies["csrftoken"]}
    site.measure("a draft that repeats", lambda: site.signed_in.post(changes, data=text, headers=sent).status_code)
    site.submit(repeated("1"))
    compared = site.submit(repeated("2"))
    site.measure("files that repeat", lambda: site.anybody.get(compared).status_code)
    site.measure("the same once more", lambda: site.anybody.get(compared).status_code)
    fresh = site.submit(repeated("3"))
    site.measure("files that repeat, readers leave", lambda: leave_early(site, fresh))
    for title, worst in TEXTS.items():
        page = site.submit({"x.cu": worst, "notes.py": worst[:50_000]})
        site.measure(title, lambda address=page: site.anybody.get(address).status_code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--give-up-s", type=float, default=200.0)
    arguments = parser.parse_args()
    more = {"PKB_GPU_SECONDS_PER_DAY": "1e9", "PKB_MAX_QUEUED_PER_AUTHOR": "1000"}
    with tempfile.TemporaryDirectory(prefix="pkb-worst-") as data, Stack(Path(data), environment=more) as served:
        served.migrate()
        measure(Site(served, give_up_s=arguments.give_up_s))
