"""What the references move over the links, by the driver's counters, against the cost model: every problem, one size.

    python -m tools.bench.links --profile h200x4-nomc [--size base] [--problem SLUG ...]

One line per problem: bytes per call of the busiest rank one way, over the least that the model demands and over what it
says that the reference sends. A share below 1 of the least means that the model demands too much.
"""

import argparse
import itertools
import secrets
import sys
import time

from evaluator.errors import EvaluatorError
from evaluator.hardware import profiles
from evaluator.host.machine.gpus import gpus_for
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure.references import ReferenceClock
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.settings import JudgeSettings
from evaluator.judging.floors import cost_of
from evaluator.measuring import baselines
from problems import registry

CALLS = 2


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", required=True)
    parser.add_argument("--size", default="base")
    parser.add_argument("--problem", nargs="*")
    parser.add_argument("--seconds", type=float, default=600.0, help="start no further problem after so long")
    arguments = parser.parse_args()
    profile = profiles.get(arguments.profile)
    started = time.monotonic()
    settings = JudgeSettings(profile=profile.name)
    with SlotWatch(gpus_for(profile)) as links, baselines.ranks(settings) as trusted:
        for slug in arguments.problem or [problem.slug for problem in registry.problems()]:
            if time.monotonic() - started > arguments.seconds:
                print(f"stopped before {slug}")
                return 1
            if registry.get(slug).refuses(profile.world_size, (arguments.size,)) is None:
                try:
                    print(measure(trusted, links, slug, arguments.size, profile.world_size), flush=True)
                except EvaluatorError as error:
                    print(f"{slug:<44} {str(error)[:200]}")
                    return 1
    return 0


def measure(trusted: TrustedRanks, links: SlotWatch, slug: str, size: str, world_size: int) -> str:
    """One line on one problem."""
    opened = trusted.open_size(problem=slug, size=size, dtype="bfloat16", key=secrets.token_bytes(32))
    clock = ReferenceClock(trusted, opened, itertools.count())
    clock.time()
    before = links.links()
    for _ in range(CALLS):
        clock.time()
    after = links.links()
    moved = max(
        (new - old) / CALLS for minor, ways in before.items() for old, new in zip(ways, after[minor], strict=True)
    )
    cost = cost_of(registry.get(slug), opened.dims, world_size=world_size, dtype="bfloat16")
    shares = [
        f"{moved / least:8.3f}" if least else "    none" for least in (cost.wire_bytes, cost.reference_wire_bytes)
    ]
    return f"{slug:<44} {moved:>15,.0f} bytes  of least {shares[0]}  of the reference's {shares[1]}"


if __name__ == "__main__":
    sys.exit(main())
