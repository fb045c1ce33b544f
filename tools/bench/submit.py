"""From Submit to the verdict on an idle node, as the author of a submission waits for it.

`make bench WHAT=submit ARGS="--profile h200x2-nomc"`. A site with SQLite and a broker in a folder, and one node, run on
this machine from nothing. Entries in CUDA and references are submitted through the API, one after the other, ranked,
each once the node has been idle for `--idle-s`. A cache of builds of its own makes every CUDA entry compile. A line of
JSON per submission, then the medians: at most 40 s are wanted for CUDA and 15 s for the rest. Every one of these
submissions has to pass. One that ends otherwise, or not at all, counts for no median and makes the script end with 1.
"""

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from evaluator.contract import Verdict
from problems import registry
from tests.stack import Stack

_ENTRIES = registry.DATA / "entries"
_REFERENCES = ("allreduce", "tp_rms_norm", "ring_attention", "gemm_allreduce", "alltoall", "hyena_forward_cp")
_SIGN_UP = """
from portal.accounts import actions
user = actions.sign_up(username="author", password="a long pass phrase")
print(actions.create_token(user, name="bench", scopes=["submit", "read"], lifetime_days=1)[1])
"""
_LOOK_S, _MOST_S = 0.2, 400.0


class Author:
    """Somebody who submits through the API of a site and waits for verdicts."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._token = stack.manage("shell", "--no-imports", "-c", _SIGN_UP).split()[-1]

    def ask(self, path: str, body: dict[str, str] | None = None) -> Any:
        """The answer of the API."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._stack.url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def judged(self, body: dict[str, str]) -> dict[str, Any]:
        """Submit, and follow until the verdict: it, and the seconds until each state or stage was first seen."""
        begun, seen = time.monotonic(), {}
        path = f"/api/v1/submissions/{self.ask('/api/v1/submissions/', body)['id']}/"
        while time.monotonic() - begun < _MOST_S:
            evaluation = self.ask(path)["evaluation"]
            took_s = round(time.monotonic() - begun, 1)
            stage = (evaluation["stage"] or {}).get("name", evaluation["state"])
            seen.setdefault(stage, took_s)
            if evaluation["state"] in ("finished", "cancelled"):
                return {"verdict": evaluation["verdict"], "seconds": took_s, "seen": seen}
            time.sleep(_LOOK_S)
        return {"verdict": "none", "seconds": _MOST_S, "seen": seen}


def jobs(*, count: int) -> Iterator[tuple[str, str, Path]]:
    """Kind, problem and file: entries and references in turn."""
    entries = sorted(_ENTRIES.glob("*.py"))[:count]
    for entry, slug in zip(entries, _REFERENCES[:count], strict=False):
        yield "cuda", entry.stem, entry
        yield "pytorch", slug, registry.folder(slug) / "reference.py"


def measure(stack: Stack, *, profile: str, kinds: set[str], count: int, idle_s: float) -> bool:
    """Submit everything; prints what was seen, and returns whether all passed."""
    author = Author(stack)
    found: list[dict[str, Any]] = []
    for kind, slug, path in jobs(count=count):
        if kind not in kinds:
            continue
        time.sleep(idle_s)  # what is measured is a node that has had nothing to do
        body = {"problem": slug, "profile": profile, "backend": kind, "mode": "ranked", "source": path.read_text()}
        found.append({"kind": kind, "problem": slug, **author.judged(body)})
        print(json.dumps(found[-1]), flush=True)
    for line in summary(found):
        print(line)
    return all(each["verdict"] == Verdict.PASSED for each in found)


def summary(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The median of each kind over what passed, and what did not."""
    for kind in dict.fromkeys(each["kind"] for each in found):
        of_kind = [each for each in found if each["kind"] == kind]
        seconds = [each["seconds"] for each in of_kind if each["verdict"] == Verdict.PASSED]
        if seconds:
            yield f"{kind}: {median(seconds):.1f} s at the median of {len(seconds)}, at most {max(seconds):.1f} s"
        failed = [f"{each['problem']} {each['verdict']}" for each in of_kind if each["verdict"] != Verdict.PASSED]
        if failed:
            yield f"{kind}: {len(failed)} of {len(of_kind)} did not pass: {', '.join(failed)}"


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="cpux2")
    parser.add_argument("--kinds", nargs="+", default=["cuda", "pytorch"], choices=("cuda", "pytorch"))
    parser.add_argument("--count", type=int, default=6, help="submissions of each kind")
    parser.add_argument("--idle-s", type=float, default=5.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pkb-submit-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # builders run as another user
        cache = folder / "tmp"
        cache.mkdir()
        cache.chmod(0o1777)
        own = {"TMPDIR": str(cache), "PKB_LEASE_SECONDS": "60", "PKB_NODE_SILENT_SECONDS": "60"}
        with Stack(folder / "site", environment=own) as stack:
            stack.migrate()
            stack.start_web()
            stack.start_dispatcher()
            stack.start_node("alpha", profiles=options.profile)
            have_passed = measure(
                stack,
                profile=options.profile,
                kinds=set(options.kinds),
                count=options.count,
                idle_s=options.idle_s,
            )
    sys.exit(0 if have_passed else 1)


if __name__ == "__main__":
    main()
