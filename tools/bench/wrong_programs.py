"""Makes wrong programs from references, and asks whether the calls of a judgement refuse them.

    python -m tools.bench.wrong_programs [--seed 42] [--count 30] [--seconds 600] [SLUG ...]

A wrong program is a reference with one change by one operator of cosmic-ray: a comparison, a condition, a number, an
arithmetic operator, a loop. The changes of a problem are shuffled by the seed. Each program meets, in process and on
two CPU ranks at `tiny`, what a judgement compares: usual calls, one in each regime, and joined ones. What passes
meets them on four ranks, as a check repeats itself there, and then
calls drawn evenly from the space, each regime that fits with probability 1/4. If it is right there too, it counts
as alike, and a person has to say why. Results go to tools/bench/wrong_programs.json as they come, so a run that
was cut off goes on where it was. Prints a table by operator.
"""

import argparse
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path

import torch.distributed as dist
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from evaluator.host.measure import covering
from evaluator.host.settings import JudgeSettings
from problems import registry
from problems.harness.implementation import WrongStructure, load
from problems.harness.ranks import RankFailure, Ranks
from problems.harness.trials import Trial, call_of
from problems.spec.schema import Problem, Regime, SizeName
from tools.bench.faults import OPERATORS

RESULTS = Path(__file__).with_name("wrong_programs.json")
USUAL_CALLS = 3
EVEN_CALLS = 40
DEADLINE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """A changed program and what became of it: `refused`, `missed` (only even draws refuse it), `alike`, or `same`.

    `why` says of one that is alike why it is right on every legal input.
    """

    slug: str
    operator: str
    occurrence: int
    before: str
    after: str
    end: str
    where: str
    why: str = ""


def passes(source: str, trial: Trial) -> bool:
    """Whether the `solution` of `source` is right in the call of `trial`, on this rank."""
    implementation = load(trial.slug)
    names: dict[str, object] = {"__name__": "changed"}
    exec(compile(source, "changed.py", "exec"), names)
    call = call_of(trial, implementation, rank=dist.get_rank(), world_size=dist.get_world_size())
    try:
        outputs = replace(implementation, solution=names["solution"]).run(names["solution"], call)
        return all(each.passed for each in implementation.check(call, outputs, implementation.expected(call)))
    except WrongStructure:
        return False


def changes(slug: str) -> Iterator[tuple[str, int]]:
    """Every change of the reference: an operator and which of its occurrences."""
    tree = get_ast_from_path(registry.folder(slug) / "reference.py")
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        positions = [start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)]
        yield from ((f"core/{name}", occurrence) for occurrence in range(len(positions)))


def judged(problem: Problem, dice: random.Random) -> list[str]:
    """The regimes of the calls of a judgement, "" for a usual one; joined ones with drawn numbers."""
    regimes = problem.regimes_at(SizeName.TINY, 2)
    count = max(JudgeSettings.joined_regimes, 2 * len(regimes))
    several = [covering.joined(call) for call in covering.covering(regimes, count, dice)]
    return [""] * USUAL_CALLS + [regime.drawn(dice).name for regime in (*regimes, *several)]


def evenly(problem: Problem, dice: random.Random) -> str:
    """The regime of a call drawn evenly from the space; "" for a usual one."""
    regimes, met = list(problem.regimes_at(SizeName.TINY, 2)), list[Regime]()
    dice.shuffle(regimes)
    for regime in regimes:
        if dice.random() < 1 / 4 and all(regime.fits(known) for known in met):
            met.append(regime)
    return reduce(Regime.joined, met).drawn(dice).name if met else ""


class Meeting:
    """Ranks that changed programs run on; new ones where a program broke them."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._ranks: Ranks | None = None

    def refuses(self, slug: str, source: str, regimes: list[str]) -> str | None:
        """The first of `regimes` in which the program is refused; None where it is right in all."""
        for index, regime in enumerate(regimes):
            if self._ranks is None:
                self._ranks = Ranks(self._world_size, deadline_s=DEADLINE_S)
            try:
                if not all(
                    self._ranks.run(
                        passes, source, Trial(slug=slug, key=os.urandom(32), program="", index=index, regime=regime)
                    )
                ):
                    return regime or "usual"
            except RankFailure as failure:
                self.close()
                return f"{regime or 'usual'} ({str(failure).splitlines()[-1][:120]})"
        return None

    def close(self) -> None:
        """End the ranks."""
        if self._ranks is not None:
            self._ranks.close()
        self._ranks = None


def met(slug: str, change: tuple[str, int], meeting: Meeting, other: Meeting, dice: random.Random) -> Result:
    """What becomes of one changed program."""
    source, problem = registry.reference_source(slug), registry.get(slug)
    changed = mutate_code(source, get_operator(change[0])(), change[1]) or source
    lines = zip(source.splitlines(), changed.splitlines(), strict=False)
    before, after = next(((old.strip(), new.strip()) for old, new in lines if old != new), ("", ""))
    end, where = "same", ""
    if before or after:
        found = meeting.refuses(slug, changed, judged(problem, dice))
        if not found and problem.refuses_world_size(4) is None:
            found = (late := other.refuses(slug, changed, judged(problem, dice))) and f"{late} on 4 ranks"
        end, where = ("refused", found) if found else ("alike", "")
        if not found and (late := meeting.refuses(slug, changed, [evenly(problem, dice) for _ in range(EVEN_CALLS)])):
            end, where = "missed", late
    return Result(slug=slug, operator=change[0], occurrence=change[1], before=before, after=after, end=end, where=where)


def main() -> None:
    """Meet the programs that have no result yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--count", type=int, default=30, help="programs of a problem")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="default: every problem")
    options = parser.parse_args()
    results = [Result(**item) for item in json.loads(RESULTS.read_text())] if RESULTS.exists() else []
    known = {(result.slug, result.operator, result.occurrence) for result in results}
    begun, meeting, other = time.monotonic(), Meeting(2), Meeting(4)
    for slug in options.slugs or [problem.slug for problem in registry.problems()]:
        possible = list(changes(slug))
        random.Random(f"{options.seed}/{slug}").shuffle(possible)
        for change in possible[: options.count]:
            if (slug, *change) in known or time.monotonic() - begun > options.seconds:
                continue
            results.append(met(slug, change, meeting, other, random.Random(f"{options.seed}/{slug}/{change}")))
            RESULTS.write_text(json.dumps(list(map(asdict, results)), indent=1) + "\n")
    meeting.close()
    other.close()
    print(table(results))


def table(results: list[Result]) -> str:
    """Counts by operator and by problem, and every program that was not refused."""
    lines = []
    for heading in ("operator", "slug"):
        counts = Counter((getattr(result, heading), result.end) for result in results)
        lines += [f"{heading:46} refused missed alike same"]
        for name in sorted({name for name, _ in counts}):
            numbers = "".join(f"{counts[name, end]:7}" for end in ("refused", "missed", "alike", "same"))
            lines.append(f"{name:46} {numbers}")
    left = [result for result in results if result.end in ("missed", "alike")]
    return "\n".join(
        [*lines, *(f"{each.end} {each.slug}: {each.before} -> {each.after} {each.where}" for each in left)]
    )


if __name__ == "__main__":
    main()
