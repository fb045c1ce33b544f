"""What judging costs when every program and trial gets a launch of its own, for comparison with `tools.bench.judging`.

`python -m tools.bench.launches [--profile cpux2] [--trials 5] [--size tiny] SLUG FILE` starts torchrun twice per trial,
once for the reference and once for the program. Each start has imports, process group, warm-up, timed calls and end, as
in a usual benchmark script. The ranks run in this machine's own environment without a sandbox: use it only for your own
programs.
"""

import argparse
import secrets
import subprocess
import sys
import time
from pathlib import Path

from evaluator.hardware import profiles
from problems import registry


def launch(slug: str, program: Path, *, profile: str, size: str, key: str) -> float:
    """One launch from start to end in seconds."""
    world_size = profiles.get(profile).world_size
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"]
    start = time.perf_counter()
    subprocess.run([*ranks, "-m", "tools.bench.launched", slug, str(program), profile, size, key], check=True)
    return time.perf_counter() - start


def trials(slug: str, program: Path, *, profile: str, size: str, count: int) -> list[float]:
    """Seconds of every launch of `count` trials: the reference, then the program."""
    seconds = []
    for trial in range(count):
        for each in (registry.folder(slug) / "reference.py", program):
            took = launch(slug, each, profile=profile, size=size, key=secrets.token_hex(32))
            print(f"trial {trial + 1} at {size}, {each.name}: {took:.2f} s", flush=True)
            seconds.append(took)
    return seconds


def main() -> None:
    """Parse the command line, launch and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="cpux2")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("slug", nargs="?", default="allreduce")
    parser.add_argument("file", nargs="?", type=Path)
    chosen = parser.parse_args()
    program = chosen.file or registry.folder(chosen.slug) / "reference.py"
    seconds = trials(chosen.slug, program, profile=chosen.profile, size=chosen.size, count=chosen.trials)
    print(f"{len(seconds)} launches: {sum(seconds):.1f} s, {sum(seconds) / len(seconds):.2f} s each")


if __name__ == "__main__":
    main()
