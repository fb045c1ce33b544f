"""Draws faults over portal and evaluator and asks which tier of tests finds each: the power of the tests, shown.

    python -m tools.bench.faults --seed 24 --count 24

A fault is one change by one operator of cosmic-ray: a comparison, a condition, a number, a decorator or the like. It is
made in a clone beside this checkout, and meets there, until one of them fails: the test files that name its module or
package, then all of its room in `make test`, then the same in `make integration`. Each result is a line of
tools/bench/faults.jsonl as it comes, so a run that was cut off goes on where it was.

`--part 2/8` takes the second of every eight faults, so that eight workers share them. `--tier near` leaves whole rooms
to a later run, which meets the faults that were not found. A test that fails also without the fault finds nothing.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("faults.jsonl")
ROOMS = {
    "portal": ["tests/portal", "tests/client", "tests/browser", "tests/deploy"],
    "evaluator": ["tests/evaluator", "tests/client"],
}
OPERATORS = [
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_Gt", "Gt_Lt", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul")),
    *("AddNot", "ReplaceUnaryOperator_Delete_Not", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *("NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop", "ExceptionReplacer"),
]
TIERS = ("near", "test", "integration")
"""The first is what `make test` runs of the files that name the changed module."""
LIMIT_S = 1800
MOST_S = 6 * 3600
"""No fault is begun after so much time in all."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One change of one file."""

    path: str
    operator: str
    occurrence: int
    line: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a fault: the tier that found it, "" where none of `met` did, and the first test that failed."""

    fault: Fault
    before: str
    after: str
    met: list[str]
    found_by: str
    test: str
    seconds: float


def drawn(seed: int) -> Iterator[Fault]:
    """Different faults without end: a file by its length, then any change that an operator can make in it."""
    dice = random.Random(seed)
    names = subprocess.run(
        ["git", "ls-files", "portal/*.py", "evaluator/*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [path for path in names.stdout.split() if "/migrations/" not in path]
    lengths = [(ROOT / path).read_text(encoding="utf-8").count("\n") for path in paths]
    seen = set()
    while True:
        path = dice.choices(paths, lengths)[0]
        possible = list(_changes(path))
        fault = dice.choice(possible) if possible else None
        if fault is not None and fault not in seen and _changed(fault) != _source(fault):
            seen.add(fault)
            yield fault


def _source(fault: Fault) -> str:
    return (ROOT / fault.path).read_text(encoding="utf-8")


def _changed(fault: Fault) -> str:
    """The file with the fault in it; as it is where the operator changes nothing."""
    source = _source(fault)
    return mutate_code(source, get_operator(fault.operator)(), fault.occurrence) or source


def _changes(path: str) -> Iterator[Fault]:
    tree = get_ast_from_path(ROOT / path)
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        positions = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(positions):
            yield Fault(path=path, operator=f"core/{name}", occurrence=occurrence, line=start[0])


def meet(fault: Fault, clone: Path, tiers: list[str]) -> Result:
    """Make the fault in the clone, run the tests of each tier until one fails, and take it back."""
    source, changed = _source(fault), _changed(fault)
    started = time.monotonic()
    found_by, test = "", ""
    for tier in tiers:
        test = _first_failure(fault, clone, tier) or ""
        if test:
            found_by = tier
            break
    pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
    before, after = next((old.strip(), new.strip()) for old, new in pairs if old != new)
    seconds = round(time.monotonic() - started, 1)
    return Result(fault=fault, before=before, after=after, met=tiers, found_by=found_by, test=test, seconds=seconds)


def _first_failure(fault: Fault, clone: Path, tier: str) -> str | None:
    """The first test of the tier that fails, and passes without the fault."""
    tests = _near(fault.path) if tier == "near" else ROOMS[fault.path.partition("/")[0]]
    failing_anyway: list[str] = []
    while tests:
        (clone / fault.path).write_text(_changed(fault), encoding="utf-8")
        try:
            test = _failing(clone, tier, tests, failing_anyway)
        finally:
            (clone / fault.path).write_text(_source(fault), encoding="utf-8")
        if test is None:
            break
        again = tests if test.startswith("(") else [test]
        if _failing(clone, tier, again, []) is None:
            return test
        if test.startswith("("):
            raise SystemExit(f"{tier}: the tests end with {test} also without the fault in {fault.path}")
        failing_anyway.append(test)
    return None


def _failing(clone: Path, tier: str, tests: list[str], left_out: list[str]) -> str | None:
    """The first test that fails; "(collection)" where the change ends pytest before any test, None where all pass."""
    marker = "test" if tier == "near" else tier
    command = [sys.executable, "-m", "pytest", "--tier", marker, "-xq", "-pno:cacheprovider"]
    command += tests
    command += [f"--{'deselect' if '::' in test else 'ignore'}={test}" for test in left_out]
    if tier != "near":
        command += ["-n", "2", "--dist", "loadfile"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PKB_")}
    environment["PKB_TEST_SEED"] = "faults"
    try:
        done = subprocess.run(
            command, cwd=clone, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "(time limit)"
    if done.returncode in (0, 5):
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    return failed[0].partition(" ")[2].partition(" - ")[0] if failed else "(collection)"


def _near(path: str) -> list[str]:
    """The test files of the room that name the module, or whose own path has a word of its path."""
    *packages, stem = path.removesuffix(".py").removesuffix("/__init__").split("/")
    names = re.compile(rf"\b{'.'.join(packages)}(\.| import (.*\b)?){stem}\b")
    words = re.compile(rf"[/_]({'|'.join((*packages[1:], *stem.split('_')))})[/_.]")
    files = {file.relative_to(ROOT): file for room in ROOMS[packages[0]] for file in (ROOT / room).rglob("test_*.py")}
    is_near = {name: words.search(str(name)) or names.search(file.read_text("utf-8")) for name, file in files.items()}
    return sorted(str(name) for name in files if is_near[name])


def main() -> None:
    """Meet the faults that have no result yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--part", default="1/1", metavar="I/K", help="only every K-th fault, from the I-th")
    parser.add_argument("--tier", action="append", choices=TIERS, help="only this tier; may be repeated")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    tiers = options.tier or list(TIERS)
    rows = _rows(options.results)
    folder = Path(tempfile.mkdtemp(prefix="pkb-faults-"))
    clone = folder / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    try:
        for fault in islice(drawn(options.seed), first - 1, options.count, step):
            row = rows.get(fault, {"met": [], "found_by": "", "seconds": 0})
            left = [tier for tier in tiers if tier not in row["met"]]
            if row["found_by"] or not left or sum(each["seconds"] for each in rows.values()) > MOST_S:
                continue
            result = meet(fault, clone, left)
            both = {"met": row["met"] + result.met, "seconds": row["seconds"] + result.seconds}
            rows[fault] = asdict(result) | both
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[fault]) + "\n")
            change = f"{fault.path}:{fault.line} {result.before} -> {result.after}"
            print(f"{result.found_by or 'nothing':<12} {change}", flush=True)
    finally:
        shutil.rmtree(folder)


def _rows(results: Path) -> dict[Fault, dict]:
    """The last result of each fault."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {Fault(**row["fault"]): row for row in map(json.loads, lines)}


if __name__ == "__main__":
    main()
