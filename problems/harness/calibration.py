"""How far apart honest programs and cheats lie: `python -m problems.harness.calibration SLUG [SLUG ...]`.

For every output it prints the largest errors of the reference and the honest variants over several calls. For every
wrong program it prints the smallest error with which a call of it could hope to pass. A tolerance belongs at the
geometric middle; where the two are less than 4 times apart, the inputs have to change.
"""

import argparse
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import torch

from problems import registry
from problems.harness.implementation import Implementation, load
from problems.harness.mutants import generic, why_not_applicable
from problems.harness.ranks import Ranks
from problems.harness.trials import REFERENCE, Outcome, Trial, attempt
from problems.spec.schema import Problem, Regime, SizeName


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors of one output: the largest in tolerance units and the rms as a multiple of the reference's."""

    largest: float
    rms: float


def honest_programs(implementation: Implementation) -> tuple[str, ...]:
    """The reference and every honest variant, by the names that a Trial takes."""
    return (REFERENCE, *(f"honest:{name}" for name in implementation.honest))


def wrong_programs(implementation: Implementation) -> tuple[str, ...]:
    """The problem's own mutants and every generic one that applies to it."""
    problem = implementation.problem
    own = [f"mutant:{name}" for name in implementation.mutants]
    shared = [f"generic:{name}" for name in generic(problem) if why_not_applicable(problem, name) is None]
    return (*own, *shared)


def narrow_programs(problem: Problem) -> tuple[tuple[str, Regime], ...]:
    """By regime, a program that is right but for it, with the regime."""
    return tuple((f"narrow:{regime.name}", regime) for regime in problem.regimes)


def worst_over_ranks(outcomes: Sequence[Outcome]) -> tuple[Errors, ...]:
    """Per output, the larger errors of any rank; nothing where the structure was wrong on one."""
    if any(outcome.wrong_structure is not None for outcome in outcomes):
        return ()
    by_output = zip(*(outcome.comparisons for outcome in outcomes), strict=True)
    return tuple(
        Errors(largest=max(one.max_error for one in ranks), rms=max(one.rms_error for one in ranks))
        for ranks in by_output
    )


def _measure(ranks: Ranks, trial: Trial, *, calls: int) -> Iterator[tuple[Errors, ...]]:
    """The errors of the program of `trial` in several calls with keys of their own."""
    for index in range(calls):
        again = Trial(
            slug=trial.slug,
            program=trial.program,
            size=trial.size,
            key=secrets.token_bytes(32),
            index=index,
            dtype=trial.dtype,
        )
        yield worst_over_ranks(ranks.run(attempt, again))


def calibrate(slug: str, ranks: Ranks, *, size: SizeName, calls: int) -> Iterator[str]:
    """Lines of a table for one problem on a running pool, with the suggested middle at the end."""
    implementation = load(slug)
    names = [output.name for output in implementation.problem.outputs]
    worst_honest = [Errors(largest=0.0, rms=0.0) for _ in names]
    cheapest = [Errors(largest=inf, rms=inf) for _ in names]
    yield f"{'program':40} {'output':20} {'largest':>12} {'rms':>12}"
    for program in (*honest_programs(implementation), *wrong_programs(implementation)):
        trial = Trial(slug=slug, program=program, size=size, key=b"")
        measured = list(_measure(ranks, trial, calls=calls))
        is_honest = program in honest_programs(implementation)
        pick = max if is_honest else min
        for place, name in enumerate(names):
            errors = Errors(
                largest=pick((call[place].largest for call in measured if call), default=inf),
                rms=pick((call[place].rms for call in measured if call), default=inf),
            )
            yield f"{program:40} {name:20} {errors.largest:12.4g} {errors.rms:12.4g}"
            target = worst_honest if is_honest else cheapest
            target[place] = Errors(
                largest=pick(target[place].largest, errors.largest), rms=pick(target[place].rms, errors.rms)
            )
    for output, honest, wrong in zip(implementation.problem.outputs, worst_honest, cheapest, strict=True):
        yield f"{output.name}: largest {_middle(honest.largest, wrong.largest)}"
        if output.tolerance.rms is not None:
            yield f"{output.name}: rms {_middle(honest.rms, wrong.rms)}"


def _middle(honest: float, wrong: float) -> str:
    if honest <= 0 or not isfinite(wrong):
        return f"honest {honest:.3g}, wrong {wrong:.3g}"
    return f"honest {honest:.3g}, wrong {wrong:.3g}, {wrong / honest:.2g} times, middle {sqrt(honest * wrong):.3g}"


def main(arguments: list[str]) -> int:
    """Print the calibration of the problems named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m problems.harness.calibration", description=__doc__)
    parser.add_argument("slug", nargs="+", help="problems to calibrate")
    parser.add_argument("--size", type=SizeName, default=SizeName.TINY, choices=list(SizeName))
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], help="world sizes (gloo on the CPU)")
    parser.add_argument("--calls", type=int, default=10, help="calls per program, each with its own key")
    options = parser.parse_args(arguments)
    for slug in options.slug:
        registry.get(slug)
    for world_size in options.ranks:
        with Ranks(world_size) as ranks:
            for slug in options.slug:
                sys.stdout.write(f"{slug}, {options.size}, {world_size} CPU ranks, torch {torch.__version__}\n")
                lines = calibrate(slug, ranks, size=options.size, calls=options.calls)
                sys.stdout.writelines(f"  {line}\n" for line in lines)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
