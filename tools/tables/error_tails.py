# A table on standard output is what it is for.
"""How rare large errors of honest programs are: the figures that problems/outputs/extremes.py rests on.

    python -m tools.tables.error_tails [--regime first_step] [--program honest:rounded_each_step] [--size base]
        [--ranks 2] [--seeds 3] [--seconds 30] SLUG [SLUG ...]

Errors are in limits: 1 is what a single element may be off by. Prints how many elements are off by more than each
threshold, per output and seed, and the power with which their number falls (Hill's estimate from the elements beyond
0.1). A seed gets `--seconds` of calls.
"""

import argparse
import hashlib
import time
from collections import defaultdict
from math import log

import torch
import torch.distributed as dist

from problems.harness.implementation import load
from problems.harness.ranks import Ranks
from problems.harness.trials import Trial, call_of
from problems.spec.schema import SizeName, Tolerance

THRESHOLDS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_FIRST = 0.1
"""From here on errors count for the power."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regime", default="first_step", help="'' for calls like the timed ones")
    parser.add_argument("--program", default="honest:rounded_each_step")
    parser.add_argument("--size", type=SizeName, default=SizeName.BASE, choices=list(SizeName))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("slugs", nargs="+", metavar="SLUG")
    options = parser.parse_args()
    with Ranks(options.ranks) as ranks:
        for slug in options.slugs:
            for seed in range(options.seeds):
                _print(slug, seed, _of_seed(ranks, slug, seed, options))


def _of_seed(ranks, slug, seed, options):
    """By output: elements compared, and all errors beyond the least threshold."""
    found, start, index = defaultdict(lambda: [0, []]), time.monotonic(), 0
    while time.monotonic() - start < options.seconds:
        key = hashlib.sha256(f"{slug}/{seed}/{index}".encode()).digest()
        trial = Trial(
            slug=slug, program=options.program, size=options.size, key=key, index=index, regime=options.regime
        )
        for own in ranks.run(large_errors, trial):
            for output, (elements, errors) in own.items():
                found[output][0] += elements
                found[output][1] += errors
        index += 1
    return found


def large_errors(trial: Trial) -> dict[str, tuple[int, list[float]]]:
    """By output of this rank: its elements, and errors beyond the least threshold."""
    implementation = load(trial.slug)
    call = call_of(trial, implementation, rank=dist.get_rank(), world_size=dist.get_world_size())
    family, _, name = trial.program.partition(":")
    program = implementation.solution if family == "reference" else implementation.honest[name]
    actual, expected = implementation.run(program, call), implementation.expected(call)
    pairs = zip(implementation.problem.outputs, actual, expected, strict=True)
    return {output.name: (right.numel(), _large(left, right, output.tolerance)) for output, left, right in pairs}


def _large(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> list[float]:
    right = expected.double()
    limit = tolerance.atol * right.square().mean().sqrt() + tolerance.rtol * right.abs()
    errors = (actual.double() - right).abs() / limit
    large: list[float] = errors[errors > THRESHOLDS[0]].tolist()
    return large


def _print(slug, seed, found):
    for output, (elements, errors) in found.items():
        beyond = [sum(error > threshold for error in errors) for threshold in THRESHOLDS]
        far = [error for error in errors if error > _FIRST]
        power = f"{len(far) / sum(log(error / _FIRST) for error in far):.2f}" if far else "-"
        largest = max(errors, default=0.0)
        print(f"{slug} {output} seed {seed}: {elements} elements, beyond {THRESHOLDS}: {beyond}, power {power}, "
              f"largest {largest:.3g}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
