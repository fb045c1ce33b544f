# ruff: noqa: T201
# A table on standard output is what it is for.
"""How far honest programs and a wire of 10 bits an element lie apart, and which calls refuse that wire.

    python -m tests.problems.wires [--calls 10] [--size tiny] [--ranks 2 4] [--record | --honest | --bits] [SLUG ...]

Honest programs are the reference, every variant, and the reference with sums over ranks in drawn orders, rounded at
every step or once. The wire is the reference whose collectives carry sign, 3 bits of exponent and 6 of mantissa, with
one exponent in common per 128 elements. Where a call like the timed ones lets the wire pass, the regimes are tried,
until one refuses it in every call. `--honest` prints what honest programs use of every output's bounds and nothing of
the wire. `--bits` prints how many calls like the timed ones refuse wires of 8 to 14 bits. `--record` keeps the rows in
`wires.json`, which `docs/problems.md` shows.
"""

import argparse
import datetime as dt
import hashlib
import json
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from problems import registry
from problems.harness.calibration import honest_programs
from problems.harness.implementation import load
from problems.harness.mutants import ORDERS, adds
from problems.harness.ranks import RankFailure, Ranks
from problems.harness.trials import Outcome, Trial, attempt
from problems.spec.schema import Output, Problem, Regime, SizeName

RECORD = Path(__file__).parent / "wires.json"
WIRE = "wire:ten_bit_wire"
MOST = 1e9
"""Stands for errors that are infinite, no number, or a program that raised."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured of one problem.

    Attributes:
        regime: the regime of the calls; "" for calls like the timed ones.
        refused: how many of the wire's `calls` were refused.
        output: the output of which the wire uses most of its bounds.
        bound: the bound of this output's rms error; None where it has none.
        honest_rms: the largest of honest programs in any call, as a multiple of the expected output's.
        wire_rms: the smallest of the wire in any call.
        honest: the largest part of any bound of the problem that an honest program used.
        wire: the smallest part that the wire used of the bound that it comes nearest to, or breaks.
        honest_calls: calls of honest programs.
        honest_refused: how many of them were refused.
    """

    problem: str
    size: str
    ranks: int
    calls: int
    regime: str
    refused: int
    output: str
    bound: float | None
    honest_rms: float
    wire_rms: float
    honest: float
    wire: float
    honest_calls: int
    honest_refused: int


@dataclass(frozen=True, kw_only=True)
class Errors:
    """The errors of one call: by output the largest part of a bound and the rms, over all ranks."""

    shares: tuple[float, ...]
    rms: tuple[float, ...]
    passed: bool


def is_concerned(problem: Problem) -> bool:
    """Whether an output of the problem has a tolerance, so that a narrow wire could pass."""
    return any(not output.tolerance.is_exact for output in problem.outputs)


def programs(problem: Problem) -> tuple[str, ...]:
    """The honest ones."""
    orders = [f"order:{name}" for name in ORDERS] if adds(problem) else []
    return (*honest_programs(load(problem.slug)), *orders)


def measured(ranks: Ranks, problem: Problem, *, size: SizeName, calls: int) -> Row:
    """The row of the calls that refuse the wire: those like the timed ones, else of a regime, else the first again.

    Where only some of the calls like the timed ones refuse it, and no regime always does, an evaluation still refuses
    it: it has many of them.
    """
    usual = _wire(ranks, problem, None, size=size, calls=calls)
    if any(errors.passed for errors in usual):
        for regime in _most_likely_first(problem.regimes_at(size, ranks.world_size)):
            found = _wire(ranks, problem, regime, size=size, calls=calls)
            if not any(errors.passed for errors in found):
                return _row(ranks, problem, regime, found, size=size)
    return _row(ranks, problem, None, usual, size=size)


def _most_likely_first(regimes: Iterable[Regime]) -> list[Regime]:
    return sorted(regimes, key=lambda regime: regime.name != "copied_values" and not regime.narrow.endswith("bit_wire"))


def _wire(ranks: Ranks, problem: Problem, regime: Regime | None, *, size: SizeName, calls: int) -> list[Errors]:
    return list(_errors(ranks, problem, WIRE, regime, size=size, calls=calls))


def _row(ranks: Ranks, problem: Problem, regime: Regime | None, wire: list[Errors], *, size: SizeName) -> Row:
    honest = [
        errors
        for program in programs(problem)
        for errors in _errors(ranks, problem, program, regime, size=size, calls=len(wire))
    ]
    outputs = problem.outputs_in(regime)
    index = max(range(len(outputs)), key=lambda index: min(errors.shares[index] for errors in wire))
    return Row(
        problem=problem.slug,
        size=size.value,
        ranks=ranks.world_size,
        calls=len(wire),
        regime=regime.name if regime else "",
        refused=sum(not errors.passed for errors in wire),
        output=outputs[index].name,
        bound=0.0 if outputs[index].tolerance.is_exact else outputs[index].tolerance.rms,
        honest_rms=max(errors.rms[index] for errors in honest),
        wire_rms=min(errors.rms[index] for errors in wire),
        honest=max(max(errors.shares) for errors in honest),
        wire=min(max(errors.shares) for errors in wire),
        honest_calls=len(honest),
        honest_refused=sum(not errors.passed for errors in honest),
    )


def _errors(
    ranks: Ranks, problem: Problem, program: str, regime: Regime | None, *, size: SizeName, calls: int
) -> Iterator[Errors]:
    """The errors of several calls, the same ones for every program and every time."""
    outputs, name = problem.outputs_in(regime), regime.name if regime else ""
    for index in range(calls):
        key = hashlib.sha256(f"{problem.slug}/{name}/{index}".encode()).digest()
        trial = Trial(slug=problem.slug, program=program, size=size, key=key, index=index, regime=name)
        try:
            yield errors_of(outputs, ranks.run(attempt, trial))
        except RankFailure:
            yield Errors(shares=(MOST,) * len(outputs), rms=(MOST,) * len(outputs), passed=False)


def errors_of(outputs: tuple[Output, ...], outcomes: list[Outcome]) -> Errors:
    """The errors of a call by what its ranks found."""
    if any(outcome.wrong_structure for outcome in outcomes):
        return Errors(shares=(MOST,) * len(outputs), rms=(MOST,) * len(outputs), passed=False)
    by_output = list(zip(*(outcome.comparisons for outcome in outcomes), strict=True))
    rms = [max(_finite(found.rms_error) for found in ranks) for ranks in by_output]
    elements = [max(_finite(found.max_error) for found in ranks) for ranks in by_output]
    bounds = [output.tolerance.rms for output in outputs]
    shares = [
        max(element, error / bound if bound else 0.0)
        for element, error, bound in zip(elements, rms, bounds, strict=True)
    ]
    return Errors(shares=tuple(shares), rms=tuple(rms), passed=all(outcome.passed for outcome in outcomes))


def _finite(error: float) -> float:
    return min(error, MOST) if error == error else MOST  # noqa: PLR0124  a NaN is not itself


def _kept() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return kept


@cache
def recorded() -> dict[str, list[Row]]:
    """The rows that are kept, by problem."""
    rows = [Row(**row) for row in _kept()["rows"]]
    return {slug: [row for row in rows if row.problem == slug] for slug in dict.fromkeys(row.problem for row in rows)}


def recorded_on() -> str:
    """The machine, the versions and the day of the last recording."""
    return str(_kept()["machine"])


def machine() -> str:
    """What measured: kind of processor, versions, day."""
    names = [line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if "model name" in line]
    processor = names[0].partition(":")[2].strip() if names else platform.machine()
    day = dt.datetime.now(dt.UTC).date()
    return f"{os.cpu_count()} cores of {processor}, gloo, torch {torch.__version__}, bfloat16, {day}"


def record(rows: list[Row]) -> None:
    """Keep `rows` in place of those of the same problem, size and ranks."""
    new = {(row.problem, row.size, row.ranks) for row in rows}
    known = [row for each in recorded().values() for row in each]
    kept = [row for row in known if (row.problem, row.size, row.ranks) not in new] + rows
    recorded.cache_clear()
    order = {problem.slug: problem.number for problem in registry.problems()}
    kept.sort(key=lambda row: (order[row.problem], row.size, row.ranks))
    lines = ",\n".join(json.dumps(_short(row)) for row in kept)
    RECORD.write_text(f'{{"machine": {json.dumps(machine())}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def _short(row: Row) -> dict[str, object]:
    return {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in asdict(row).items()}


def honest_lines(ranks: Ranks, problem: Problem, *, size: SizeName, calls: int) -> Iterator[str]:
    """For every output with a tolerance the largest part of its bounds that an honest program used, and which did."""
    used: dict[str, list[Errors]] = {
        program: list(_errors(ranks, problem, program, None, size=size, calls=calls)) for program in programs(problem)
    }
    refused = sum(not errors.passed for calls_of in used.values() for errors in calls_of)
    for index, output in enumerate(problem.outputs):
        if not output.tolerance.is_exact:
            share, program = max((max(errors.shares[index] for errors in found), name) for name, found in used.items())
            yield f"| {problem.number} | {problem.slug} | {output.name} | {share:.2f} | {program} | {refused} |"


def line_of_bits(ranks: Ranks, problem: Problem, *, size: SizeName, calls: int) -> str:
    """How many of `calls` like the timed ones refused a wire of 8 to 14 bits an element."""
    refused = []
    for bits in range(8, 15):
        found = _errors(ranks, problem, f"wire:{bits}_bit_wire", None, size=size, calls=calls)
        refused.append(sum(not errors.passed for errors in found))
    return f"| {problem.number} | {problem.slug} | {ranks.world_size} | {' | '.join(map(str, refused))} |"


def bound(row: Row) -> str:
    """The bound of the rms error in words."""
    return "-" if row.bound is None else "exact" if row.bound == 0 else f"{row.bound:g}"


def limited(error: float) -> str:
    """An error, or that it has no limit: no number, another structure, or any error where the bound is equality."""
    return f"{error:.2g}" if error < MOST else "infinite"


def line(row: Row) -> str:
    """The row as one of a table."""
    return (
        f"| {row.problem} | {row.size} | {row.ranks} | {row.regime or 'as timed'} | {row.refused} of {row.calls} | "
        f"{bound(row)} | {row.honest_rms:.2g} | {limited(row.wire_rms)} | {row.honest:.2g} | {limited(row.wire)} | "
        f"{row.honest_refused} of {row.honest_calls} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--size", type=SizeName, default=SizeName.TINY, choices=list(SizeName))
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--record", action="store_true", help="keep the rows in wires.json")
    parser.add_argument("--honest", action="store_true", help="print what honest programs use of each bound")
    parser.add_argument("--bits", action="store_true", help="print which wires usual calls refuse")
    parser.add_argument("slugs", nargs="*", metavar="SLUG")
    options = parser.parse_args()
    problems = [registry.get(slug) for slug in options.slugs] or [
        problem for problem in registry.problems() if is_concerned(problem)
    ]
    rows = []
    if options.honest:
        print("| number | problem | output | of its bounds | by | refused |\n|---|---|---|---|---|---|")
    elif options.bits:
        print(
            "| number | problem | ranks | 8 | 9 | 10 | 11 | 12 | 13 | 14 |\n|---|---|---|---|---|---|---|---|---|---|"
        )
    else:
        print(
            "| problem | size | ranks | calls | refused | bound | honest rms | wire rms | honest | wire | "
            "refused honest |\n|---|---|---|---|---|---|---|---|---|---|---|"
        )
    for world_size in options.ranks:
        with Ranks(world_size) as ranks:
            for problem in problems:
                if problem.refuses(world_size, [options.size]) is not None:
                    continue
                if options.honest:
                    print(*honest_lines(ranks, problem, size=options.size, calls=options.calls), sep="\n", flush=True)
                elif options.bits:
                    print(line_of_bits(ranks, problem, size=options.size, calls=options.calls), flush=True)
                else:
                    rows.append(measured(ranks, problem, size=options.size, calls=options.calls))
                    print(line(rows[-1]), flush=True)
    if options.record:
        record(rows)


if __name__ == "__main__":
    main()
