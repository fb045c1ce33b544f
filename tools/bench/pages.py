"""What the pages weigh and how soon they are there, in Chromium, and how many queries each takes.

`python -m tools.bench.pages [--submissions 20000] [--loads 5] [--network desktop|mobile]` fills a database by
`tools.bench.demo_data`, and serves it with gunicorn as in production. It opens every kind of page in a browser whose
cache is empty. Network and processor are slowed down as Lighthouse does for desktops (40 ms, 10 Mbit/s) or phones (150
ms, 1.6 Mbit/s, a fourth of the processor). It prints per page the queries, the requests, and the bytes sent. Medians
over the loads are first and largest contentful paint, blocking time (what tasks take beyond 50 ms after the first
paint) and layout shift. Pages are sent uncompressed here. Beside their bytes stands their size as the proxy of a
production site compresses them.
"""

import argparse
import gzip
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tools.bench.boards import add_demo_data, manage, served

PROMISE_KIB = 150
PAGES = {
    "home": "/",
    "problem list": "/problems/",
    "problem": "/problems/gemm_allreduce/",
    "board": "/problems/gemm_allreduce/leaderboard/?profile=h200x8",
    "record over time": "/problems/gemm_allreduce/records/?profile=h200x8",
    "leaderboards": "/leaderboards/",
    "models": "/models/",
    "people": "/leaderboards/people/",
    "records": "/leaderboards/records/",
    "still open": "/leaderboards/open/",
    "rooflines": "/roofline/",
    "taxonomy": "/taxonomy/",
    "nodes": "/nodes/",
    "search": "/search/?q=all-reduce",
    "documentation": "/docs/",
    "API": "/api/v1/",
    "sign in": "/accounts/sign-in/",
}
NETWORKS: dict[str, tuple[float, float, float]] = {"desktop": (40, 10e6, 1), "mobile": (150, 1.6e6, 4)}
"""Round trip in milliseconds, bits a second, and how many times as slow the processor is."""
WATCH = """
window.seen = { paint: 0, shift: 0, tasks: [] };
const watch = (type, note) => {
  new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type, buffered: true });
};
watch("largest-contentful-paint", (entry) => { window.seen.paint = entry.startTime; });
watch("layout-shift", (entry) => { if (!entry.hadRecentInput) window.seen.shift += entry.value; });
watch("longtask", (entry) => window.seen.tasks.push([entry.startTime, entry.duration]));
"""
READ = """() => {
  const first = performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0;
  const loads = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const late = window.seen.tasks.filter(([start, duration]) => start + duration > first);
  return {
    first, largest: window.seen.paint, shift: window.seen.shift,
    blocking: late.reduce((sum, [, duration]) => sum + Math.max(0, duration - 50), 0),
    loads: loads.map((load) => [load.name, load.transferSize]),
  };
}"""


@dataclass(frozen=True, kw_only=True)
class Load:
    """One opening of a page: milliseconds, bytes, and the sum of layout shifts."""

    first_ms: float
    largest_ms: float
    blocking_ms: float
    shift: float
    requests: int
    other_bytes: int


def load(browser: Browser, address: str, *, network: str) -> Load:
    """Open a page with an empty cache."""
    latency_ms, bits_s, slowdown = NETWORKS[network]
    context = browser.new_context(viewport={"width": 390 if network == "mobile" else 1350, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    devtools = context.new_cdp_session(page)
    speed = {"offline": False, "latency": latency_ms, "downloadThroughput": bits_s / 8, "uploadThroughput": bits_s / 8}
    devtools.send("Network.enable")
    devtools.send("Network.emulateNetworkConditions", speed)
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": slowdown})
    page.goto(address)
    page.wait_for_load_state("networkidle")
    read: dict[str, Any] = page.evaluate(READ)
    context.close()
    return Load(
        first_ms=read["first"],
        largest_ms=read["largest"],
        blocking_ms=read["blocking"],
        shift=read["shift"],
        requests=len(read["loads"]),
        other_bytes=sum(size for _, size in read["loads"]),
    )


def saved_by_compression(address: str) -> int:
    """By how many bytes gzip makes the page itself smaller; scripts and styles are compressed in any case."""
    with urllib.request.urlopen(address) as response:
        text = response.read()
    return len(text) - len(gzip.compress(text))


def queries_of(addresses: Sequence[str]) -> list[int]:
    """How many queries each page takes for somebody without an account, its caches warm."""
    from django.db import connection  # the settings need the environment that `main` prepares
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    counts = []
    for address in addresses:
        client = Client(HTTP_HOST="127.0.0.1")
        client.get(address)
        with CaptureQueriesContext(connection) as seen:
            client.get(address)
        counts.append(len(seen))
    return counts


def measure(browser: Browser, base: str, *, loads: int, network: str, queries: Sequence[int]) -> None:
    """Open every page several times and print what it took."""
    print(f"{'page':18} queries requests  weight compressed    FCP    LCP    TBT   CLS   ({network})")
    for (name, address), count in zip(PAGES.items(), queries, strict=True):
        taken = [load(browser, base + address, network=network) for _ in range(loads)]
        middle = {field: median(getattr(one, field) for one in taken) for field in Load.__dataclass_fields__}
        weight = middle["other_bytes"] / 1024
        packed = weight - saved_by_compression(base + address) / 1024
        broken = f"   ABOVE {PROMISE_KIB} KiB" if packed > PROMISE_KIB else ""
        sizes = f"{weight:3.0f} KiB    {packed:3.0f} KiB"
        times = f"{middle['first_ms']:4.0f} ms {middle['largest_ms']:4.0f} ms {middle['blocking_ms']:3.0f} ms"
        found = f"{name:18} {count:7} {middle['requests']:8.0f} {sizes} {times} {middle['shift']:.3f}{broken}"
        print(found, flush=True)


def prepared(data_dir: Path, *, submissions: int) -> Mapping[str, str]:
    """The environment of a site in `data_dir` with invented submissions."""
    environment = os.environ | {
        "PKB_SECRET_KEY": "for-measurements-only",
        "PKB_DATA_DIR": str(data_dir),
        "PKB_DATABASE_URL": f"sqlite:///{data_dir / 'pkb.sqlite3'}",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    manage(environment, "migrate", "--verbosity", "0")
    manage(environment, "collectstatic", "--noinput", "--verbosity", "0")
    print(add_demo_data(environment, "--submissions", str(submissions)))
    return environment


def main() -> None:
    """Prepare, serve, measure, clean up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submissions", type=int, default=20_000)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--network", choices=NETWORKS, action="append")
    chosen = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        parser.error("Chromium is not installed: apt-get install chromium")
    flags = ["--disable-gpu", "--disable-quic", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with tempfile.TemporaryDirectory(prefix="pkb-bench-") as folder, sync_playwright() as playwright:
        environment = prepared(Path(folder), submissions=chosen.submissions)
        os.environ.update(environment)
        queries = counted()
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        with served(environment) as (port, _):
            for network in chosen.network or list(NETWORKS):
                base = f"http://127.0.0.1:{port}"
                measure(browser, base, loads=chosen.loads, network=network, queries=queries)
        browser.close()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def counted() -> list[int]:
    """Set Django up and count the queries of every page."""
    from concurrent.futures import ThreadPoolExecutor

    import django

    django.setup()
    # Playwright runs an event loop in this thread, where Django refuses to ask a database.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(queries_of, list(PAGES.values())).result()


if __name__ == "__main__":
    main()
