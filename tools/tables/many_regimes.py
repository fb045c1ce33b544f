# A table on standard output is what it is for.
"""Honest programs in calls like the timed ones and in regimes: how many were refused, and how near they came.

    python -m tools.tables.many_regimes [--calls 100] [--size tiny] [--ranks 2 4] [--seconds 10] [--pairs] [SLUG ...]

Honest programs are the reference, every variant, and where ranks' parts are added, the reference with sums in drawn
orders. Every round makes one call of each kind, by each program; `--seconds` ends a problem's rounds early. Kinds are
usual calls, each regime, and calls in several as the judge joins them; with `--pairs` each regime and every two that
fit, with every word of their settings, and numbers drawn. Problems whose call is too large for ranks without a GPU are
left out. Prints a line per problem and world size, one per kind of call with a refusal, and exits 1 if there was one.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random, SystemRandom

from evaluator.host.measure import covering
from evaluator.host.settings import JudgeSettings
from problems import registry
from problems.harness.ranks import RankFailure, Ranks
from problems.harness.trials import Trial, attempt
from problems.spec.memory import held_bytes
from problems.spec.ranges import Among
from problems.spec.schema import Problem, Regime, SizeName
from tests.problems.wires import errors_of, programs

MOST_HELD_BYTES = 1e9
MOST_FLOPS = 1e11


@dataclass
class Found:
    """What the honest calls of a problem came to: calls, those refused by regime and program, the largest share."""

    calls: int = 0
    refused: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    largest: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=100, help="rounds: calls of each kind, by each program")
    parser.add_argument("--size", type=SizeName, default=SizeName.TINY, choices=list(SizeName))
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of a problem on one world size")
    parser.add_argument("--pairs", action="store_true", help="each regime and every two, in all words")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="default: every problem")
    options = parser.parse_args()
    problems = [registry.get(slug) for slug in options.slugs] or list(registry.problems())
    calls = refused = 0
    for world_size in options.ranks:
        for problem in problems:
            if problem.refuses(world_size, [options.size]) is not None or is_too_large(
                problem, options.size, world_size
            ):
                continue
            trials = _trials(problem, world_size, size=options.size, rounds=options.calls, only_pairs=options.pairs)
            found = tried(problem, world_size, trials, seconds=options.seconds)
            calls, wrong = calls + found.calls, sum(map(len, found.refused.values()))
            refused += wrong
            print(f"{problem.slug:46} x{world_size} {options.size} {wrong} of {found.calls} refused, "
                  f"{found.largest:.3g} of a bound at the most", flush=True)  # fmt: skip
            for (regime, program), reasons in found.refused.items():
                print(f"    {regime or 'as timed'}, {program}: {len(reasons)} refused; {reasons[0]}", flush=True)
    print(f"{refused} of {calls} honest calls refused")
    return 1 if refused else 0


def is_too_large(problem: Problem, size: SizeName, world_size: int) -> bool:
    """Whether a machine without a GPU lacks memory or time for a call."""
    dims = problem.dims(size, world_size)
    flops = sum(problem.cost(dims, world_size, 2).flops.values())
    return held_bytes(problem, dims) > MOST_HELD_BYTES or flops > MOST_FLOPS


def tried(problem: Problem, world_size: int, trials: Iterable[Trial], *, seconds: float) -> Found:
    """Rounds of calls on ranks of their own, until `seconds` are over."""
    found, start = Found(), time.monotonic()
    with Ranks(world_size) as ranks:
        for trial in trials:
            if time.monotonic() - start > seconds:
                break
            found.calls += 1
            try:
                outcomes = ranks.run(attempt, trial)
            except RankFailure as error:
                _refuse(found, trial, str(error).strip().splitlines()[-1])
                break  # ranks that raised may wait for each other
            errors = errors_of(problem.outputs_in(problem.regime(trial.regime) if trial.regime else None), outcomes)
            largest = max(errors.shares)
            found.largest = max(found.largest, largest)
            if not errors.passed:
                _refuse(found, trial, f"{largest:.3g} of a bound, key {trial.key.hex()}")
    return found


def _trials(problem: Problem, world_size: int, *, size: SizeName, rounds: int, only_pairs: bool) -> Iterator[Trial]:
    """Round by round a call of each kind, the same for every program."""
    regimes, random = problem.regimes_at(size, world_size), SystemRandom()
    for index in range(rounds):
        if only_pairs:
            kinds = _alone_and_in_pairs(regimes, random)
        else:
            several = covering.covering(regimes, JudgeSettings.joined_regimes, random)
            kinds = ["", *(regime.name for regime in (*regimes, *map(covering.joined, several)))]
        for regime in kinds:
            key = os.urandom(32)
            for program in programs(problem):
                yield Trial(slug=problem.slug, program=program, size=size, key=key, index=index, regime=regime)


def _alone_and_in_pairs(regimes: Sequence[Regime], random: Random) -> list[str]:
    """The names of all regimes, and of every two that fit, with every word of their settings."""
    worded = {regime.name: list(_in_every_word(regime, random)) for regime in regimes}
    pairs = (
        first.joined(second).name
        for names in sorted(map(sorted, covering.pairs(regimes)))
        for first, second in itertools.product(*(worded[name] for name in names))
    )
    return [*(regime.name for each in worded.values() for regime in each), *pairs]


def _in_every_word(regime: Regime, random: Random) -> Iterator[Regime]:
    """The regime with each combination of its words; its numbers are drawn."""
    words = {name: level.options for name, level in regime.ranges.items() if isinstance(level, Among)}
    for chosen in itertools.product(*words.values()):
        said = dict(zip(words, chosen, strict=True))
        values = {name: said[name] if name in said else level.draw(random) for name, level in regime.ranges.items()}
        yield regime.at(values) if values else regime


def _refuse(found: Found, trial: Trial, reason: str) -> None:
    found.refused.setdefault((trial.regime, trial.program), []).append(reason)


if __name__ == "__main__":
    sys.exit(main())
