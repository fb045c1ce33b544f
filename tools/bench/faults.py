"""Draws faults over portal and evaluator and asks which tier of tests finds each: the power of the tests, shown.

    python -m tools.bench.faults --seed 24 --count 24

A fault is one change by one operator of cosmic-ray: a comparison, a condition, a number, a decorator or the like. It is
made in a clone beside this checkout, and meets there, until one of them fails: the tests that execute its line, then
its room's tests in `make test`, then those in `make integration`. Results go to tools/bench/faults.json as they come,
so a run that was cut off goes on where it was. `--coverage` first records which test executes which line.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("faults.json")
CONTEXTS = ROOT / "var" / "contexts.coverage"
"""What `--coverage` records: by line, the tests that execute it in their own process."""
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
MOST_TESTS = 400
"""So many of the tests that execute a line are run first; a line of a much-used module is executed by thousands."""
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
    """What became of a fault: the tier that found it, "" where none did, and the first test that failed."""

    fault: Fault
    before: str
    after: str
    found_by: str
    test: str
    seconds: float


def drawn(seed: int) -> Iterator[Fault]:
    """Faults without end: a file by its length, then any change that an operator can make in it."""
    dice = random.Random(seed)
    names = subprocess.run(
        ["git", "ls-files", "portal/*.py", "evaluator/*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [path for path in names.stdout.split() if "/migrations/" not in path]
    lengths = [(ROOT / path).read_text(encoding="utf-8").count("\n") for path in paths]
    while True:
        path = dice.choices(paths, lengths)[0]
        possible = list(_changes(path))
        if possible:
            yield dice.choice(possible)


def _changes(path: str) -> Iterator[Fault]:
    tree = get_ast_from_path(ROOT / path)
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        positions = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(positions):
            yield Fault(path=path, operator=f"core/{name}", occurrence=occurrence, line=start[0])


def meet(fault: Fault, clone: Path) -> Result | None:
    """Make the fault in the clone, run tests until one fails, and take it back; None where it changes nothing."""
    file = clone / fault.path
    source = file.read_text(encoding="utf-8")
    changed = mutate_code(source, get_operator(fault.operator)(), fault.occurrence)
    if changed is None or changed == source:
        return None
    started = time.monotonic()
    file.write_text(changed, encoding="utf-8")
    try:
        found_by, test = _first_failure(fault, clone)
    finally:
        file.write_text(source, encoding="utf-8")
    pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
    before, after = next((old.strip(), new.strip()) for old, new in pairs if old != new)
    seconds = round(time.monotonic() - started, 1)
    return Result(fault=fault, before=before, after=after, found_by=found_by, test=test, seconds=seconds)


def _first_failure(fault: Fault, clone: Path) -> tuple[str, str]:
    room = ROOMS[fault.path.partition("/")[0]]
    runs = [("test", tests) for tests in [_executing(fault)] if tests]
    runs += [("test", room), ("integration", room)]
    for tier, tests in runs:
        test = _failing(clone, tier, tests)
        if test is not None:
            return tier, test
    return "", ""


def _failing(clone: Path, tier: str, tests: list[str]) -> str | None:
    """The first test that fails; "(collection)" where the change ends pytest before any test, None where all pass."""
    command = [sys.executable, "-m", "pytest", "--tier", tier, "-x", "-q", "-p", "no:cacheprovider", *tests]
    if all("::" not in test for test in tests):
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
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" ")[1] if failed else "(collection)"


def _executing(fault: Fault) -> list[str]:
    """The tests that execute the line in their own process, a sample where they are very many."""
    if not CONTEXTS.exists():
        return []
    data = CoverageData(str(CONTEXTS))
    data.read()
    contexts = data.contexts_by_lineno(str(ROOT / fault.path)).get(fault.line, [])
    tests = sorted({context.partition("|")[0] for context in contexts if "::" in context})
    return tests if len(tests) <= MOST_TESTS else random.Random(0).sample(tests, MOST_TESTS)


def record_coverage() -> None:
    """Run `make test` once, and keep for each line which tests execute it."""
    options = [
        "--tier",
        "test",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-q",
        "--cov=portal",
        "--cov=evaluator",
        "--cov-context=test",
        "--cov-report=",
    ]
    environment = os.environ | {"COVERAGE_FILE": str(CONTEXTS)}
    CONTEXTS.parent.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, env=environment, check=True)


def main() -> None:
    """Meet the faults that have no result yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--coverage", action="store_true", help="record which test executes which line, first")
    options = parser.parse_args()
    if options.coverage:
        record_coverage()
    rows = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    known = {json.dumps(row["fault"], sort_keys=True) for row in rows}
    folder = Path(tempfile.mkdtemp(prefix="pkb-faults-"))
    clone = folder / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    try:
        faults = drawn(options.seed)
        while len(rows) < options.count and sum(row["seconds"] for row in rows) < MOST_S:
            fault = next(faults)
            if json.dumps(asdict(fault), sort_keys=True) in known:
                continue
            result = meet(fault, clone)
            if result is None:
                continue
            rows.append(asdict(result))
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
            change = f"{fault.path}:{fault.line} {result.before} -> {result.after}"
            print(f"{len(rows):>3} {result.found_by or 'nothing':<12} {change}", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
