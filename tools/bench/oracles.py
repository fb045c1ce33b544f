"""What the judge's own work on inputs takes on one GPU: drawing them, computing expected outputs, comparing.

`python -m tools.bench.oracles [--world-size 4] [--size base --size large] [--budget SECONDS] [SLUG ...]` does it for
the last rank, which in causal problems has the most to do. A ranked evaluation draws for every call of either side and
compares some 20 of them at `large` and 30 to 60 at `base`. One process, one GPU: processes with a GPU each may share
the problems.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from problems import registry
from problems.harness.implementation import load
from problems.inputs.values import Call
from problems.outputs.checking import dtype_of
from problems.spec.schema import SizeName

_KEY = b"contents of the bench of oracles"
_TIMES = 4


def timed(work: Callable[[int], Any], device: torch.device) -> tuple[float, Any]:
    """The median of a few times in milliseconds, the first left out, and what the last one gave."""
    took, result = [], None
    for number in range(_TIMES):
        result = None  # gives back its memory before the next is made
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        result = work(number)
        if device.type == "cuda":
            torch.cuda.synchronize()
        took.append((time.perf_counter() - start) * 1000)
    return median(took[1:]), result


def measure(slug: str, size: str, *, world_size: int, device: torch.device) -> str:
    """One problem at one size, as a line."""
    implementation = load(slug)
    problem = implementation.problem
    dims = problem.dims(SizeName(size), world_size)

    def call(number: int) -> Call:
        return Call(
            key=_KEY, index=number, rank=world_size - 1, world_size=world_size, dims=dims, dtype=torch.bfloat16,
            device=device,
        )  # fmt: skip

    drawing, _ = timed(lambda number: implementation.make_inputs(call(number)), device)
    computing, expected = timed(lambda number: implementation.expected(call(number)), device)
    last = call(_TIMES - 1)
    given = tuple(right.to(dtype_of(output, last)) for output, right in zip(problem.outputs, expected, strict=True))
    comparing, _ = timed(lambda _: implementation.compare(last, given, expected), device)
    return f"{slug:46} {size:6} drawing {drawing:8.2f}  expected {computing:8.2f}  comparing {comparing:8.2f} ms"


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world-size", type=int, default=4)
    parser.add_argument("--size", action="append", help="base and large by default on a GPU, else tiny")
    parser.add_argument("--budget", type=float, default=600.0, help="start no further problem after so many seconds")
    parser.add_argument("slugs", nargs="*")
    chosen = parser.parse_args()
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    sizes = chosen.size or (["base", "large"] if device.type == "cuda" else ["tiny"])
    start = time.monotonic()
    for slug in chosen.slugs or [problem.slug for problem in registry.problems()]:
        if time.monotonic() - start > chosen.budget:
            print(f"no time left for {slug} and those after it")
            break
        for size in sizes:
            if registry.get(slug).refuses(chosen.world_size, [size]) is None:
                with torch.no_grad():
                    print(measure(slug, size, world_size=chosen.world_size, device=device), flush=True)


if __name__ == "__main__":
    main()
