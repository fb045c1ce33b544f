"""Makes wrong programs from references and honest variants, and asks whether a judgement's calls refuse them.

    python -m tools.bench.wrong_programs make [--seed 42] [SLUG ...]
    python -m tools.bench.wrong_programs judge --out FOLDER [--part 0] [--seconds 600]
    python -m tools.bench.wrong_programs even --out FOLDER [--part 0] [--seconds 600]
    python -m tools.bench.wrong_programs table --out FOLDER [--record]

`make` writes what `tools.bench.changes` makes to var/wrong. `judge` lets each program meet, in process and on two CPU
ranks at `tiny`, what a judgement compares: usual calls, one in each regime, and joined ones. What passes meets them on
four ranks, as a check repeats itself there.

`even` draws 2,000 inputs of every problem evenly from its factors: how many of them are set, which, and to which of
their levels. It knows nothing of the covering of a judgement. What `judge` left meets them all, and so does one honest
program in turn. 200 of them are on four ranks, where a call takes three to five times as long. A program that is right
in all of them counts as alike; one that is not was missed.

Several processes share the work: each claims a unit by making a folder. Remove FOLDER/claims before going on. A table
by operator and by problem is printed in the end. `--record` keeps it in tools/bench/wrong_programs.json, with every
program that was not refused and how many even draws each problem has met. An empty FOLDER goes on from there.
"""

import argparse
import hashlib
import itertools
import json
import lzma
import random
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch.distributed as dist

from evaluator.host.measure import covering
from evaluator.host.settings import JudgeSettings
from problems import registry
from problems.harness.calibration import honest_programs
from problems.harness.implementation import Outputs, load
from problems.harness.mutants import ORDERS, adds
from problems.harness.ranks import Ranks
from problems.harness.trials import Trial, call_of, changed_arguments, outputs_of
from problems.spec.schema import Problem, Regime, SizeName

PROGRAMS = Path(__file__).parents[2] / "var" / "wrong" / "programs.jsonl.xz"
RESULTS = Path(__file__).with_name("wrong_programs.json")
SEED = 42
USUAL_CALLS = JudgeSettings.check_calls
EVEN_CALLS, BLOCK, ON_FOUR = 2000, 50, (3, 7, 11, 15)
DEADLINE_S, GRACE_S = 20.0, 1.5


@dataclass(frozen=True, kw_only=True)
class Program:
    """A changed program, as `make` wrote it."""

    slug: str
    operator: str
    place: str
    before: str
    after: str
    source: str

    @property
    def name(self) -> str:
        """By which results know it."""
        return f"{self.slug} {self.operator} {self.place}"


@lru_cache(maxsize=16)
def solution_of(source: str) -> Any:
    """What `source` defines, once in a process, as a judge's ranks load it."""
    module = types.ModuleType("changed")
    exec(compile(source, "changed.py", "exec"), vars(module))
    return vars(module).get("program") or module.solution


@lru_cache(maxsize=2)
def expected(trial: Trial, rank: int) -> Outputs:
    """The expected output of `rank`, kept for the programs that meet the same call."""
    implementation = load(trial.slug)
    return implementation.expected(call_of(trial, implementation, rank=rank, world_size=dist.get_world_size()))


def wrong(source: str, trial: Trial) -> str:
    """Why `source`, or without one the program of `trial`, is refused in this call on this rank; "" where it is not."""
    implementation = load(trial.slug)
    call = call_of(trial, implementation, rank=dist.get_rank(), world_size=dist.get_world_size())
    try:
        if source:
            arguments = implementation.make_inputs(call)
            outputs = implementation.run_with(solution_of(source), arguments)
            if changed := changed_arguments(implementation, call, arguments):
                return f"changed {changed[0]}"
        else:
            outputs, _ = outputs_of(trial.program, implementation, call)
        compared = implementation.check(call, outputs, expected(replace(trial, program=""), call.rank))
    except Exception as error:  # noqa: BLE001  a wrong program may raise whatever it likes
        return f"raised {type(error).__name__}"
    return "" if all(each.passed for each in compared) else "wrong"


def all_right(sources: list[str], trial: Trial) -> str:
    """Why one of `sources` ("": the program of `trial`) is refused in this call on this rank; "" where none is."""
    return next(filter(None, (wrong(source, trial) for source in sources)), "")


class Meeting:
    """Ranks that programs run on; new ones where a program broke them."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self._ranks: Ranks | None = None

    def refuses(self, source: str, trial: Trial) -> str:
        """Why any rank refuses the program in the call of `trial`; "" where none does.

        What a program left in the process group must not count against the next: where the reference is refused too,
        the program meets the call again on new ranks.
        """
        why = self._once(wrong, source, trial)
        if why and self._ranks is not None and self._once(wrong, "", replace(trial, program="reference")):
            self.close()
            why = self._once(wrong, source, trial)
        return why

    def refuses_any(self, sources: list[str], trial: Trial) -> bool:
        """Whether a rank refuses one of the programs; they meet the call without a pause, and ranks end if one does."""
        if why := self._once(all_right, sources, trial):
            self.close()
        return bool(why)

    def _once(self, task: Callable[..., str], source: str | list[str], trial: Trial) -> str:
        if self._ranks is None:
            self._ranks = Ranks(self.world_size)
        pipes: list[Connection] = list(self._ranks._pipes)  # noqa: SLF001
        for pipe in pipes:
            pipe.send((task, (source, trial)))
        until, found = time.monotonic() + DEADLINE_S, []
        while pipes:
            ready = wait(pipes, max(0.0, until - time.monotonic()))
            if not ready:
                found.append("" if any(found) else "no answer")
                break
            for pipe in ready:
                pipes.remove(pipe)
                try:
                    ok, text = pipe.recv()
                    found.append(text if ok else "raised outside")
                except (EOFError, ConnectionError):
                    found.append("died")
                if found[-1]:
                    until = min(until, time.monotonic() + GRACE_S)
        why = next(filter(None, found), "")
        if pipes or "died" in found:
            self.close()
        return why

    def close(self) -> None:
        """End the ranks at once: one may be waiting for another that has gone on."""
        if self._ranks is not None:
            for process in self._ranks._processes:  # noqa: SLF001
                process.kill()
            self._ranks.close()
        self._ranks = None


def trial(slug: str, regime: str, *words: object) -> Trial:
    """The call that `words` name."""
    return Trial(slug=slug, key=hashlib.sha256(f"{slug}/{words}".encode()).digest(), program="", regime=regime)


def judged(problem: Problem, world_size: int, dice: random.Random) -> list[str]:
    """The regimes of the calls of a judgement, "" for a usual one; joined ones with drawn numbers."""
    regimes = problem.regimes_at(SizeName.TINY, world_size)
    count = max(JudgeSettings.joined_regimes, 2 * len(regimes))
    several = [covering.joined(call) for call in covering.covering(regimes, count, dice)]
    return [""] * USUAL_CALLS + [regime.drawn(dice).name for regime in (*regimes, *several)]


def evenly(problem: Problem, world_size: int, dice: random.Random) -> str:
    """The regime of a call drawn evenly from the factors: how many are set, which, and to what; "" for a usual one."""
    by_factor = defaultdict(list)
    for regime in problem.regimes_at(SizeName.TINY, world_size):
        for factor in regime.factors:
            by_factor[factor].append(regime)
    factors, met = list(by_factor), list[Regime]()
    for factor in dice.sample(factors, dice.randint(0, len(factors))):
        if legal := [regime for regime in by_factor[factor] if all(regime.fits(known) for known in met)]:
            met.append(dice.choice(legal))
    return reduce(Regime.joined, met).drawn(dice).name if met else ""


def judge(program: Program, meetings: list[Meeting]) -> dict[str, str]:
    """What becomes of one changed program in the calls of one judgement."""
    problem = registry.get(program.slug)
    for meeting in meetings:
        if problem.refuses_world_size(meeting.world_size) is None:
            words = (SEED, program.name, meeting.world_size)
            regimes = judged(problem, meeting.world_size, random.Random(str(words)))
            for index, regime in enumerate(regimes):
                if why := meeting.refuses(program.source, trial(program.slug, regime, *words, index)):
                    where = f"{regime or 'usual'} on {meeting.world_size} ranks: {why}"
                    return {"name": program.name, "end": "refused", "where": where}
    return {"name": program.name, "end": "left", "where": ""}


def even(slug: str, block: int, left: list[Program], meetings: list[Meeting]) -> dict[str, Any]:
    """Which of the programs that a judgement left are wrong in one block of even draws; which honest ones are."""
    problem, two_or_four = registry.get(slug), meetings[block in ON_FOUR]
    meeting = two_or_four if problem.refuses_world_size(two_or_four.world_size) is None else meetings[0]
    honest = [*honest_programs(load(slug)), *(f"order:{name}" for name in ORDERS if adds(problem))]
    caught: dict[str, str] = {}
    refused = []
    for index in range(block * BLOCK, (block + 1) * BLOCK):
        regime = evenly(problem, meeting.world_size, random.Random(f"{SEED}/{slug}/{index}"))
        call = replace(trial(slug, regime, SEED, index), program=honest[index % len(honest)])
        if not meeting.refuses_any(["", *(program.source for program in left if program.name not in caught)], call):
            continue
        if why := meeting.refuses("", call):
            refused.append(f"{call.program} in call {index}, {regime or 'usual'} on {meeting.world_size} ranks: {why}")
        for program in left:
            if program.name not in caught and (why := meeting.refuses(program.source, call)):
                caught[program.name] = f"{regime or 'usual'} on {meeting.world_size} ranks: {why}"
    return {"slug": slug, "block": block, "calls": BLOCK, "caught": caught, "honest_refused": refused}


def programs(slugs: list[str]) -> list[Program]:
    """The programs that `make` wrote."""
    with lzma.open(PROGRAMS, "rt", encoding="utf-8") as lines:
        every = [Program(**json.loads(line)) for line in lines]
    return [program for program in every if program.slug in slugs]


def rows(out: Path, kind: str) -> list[dict[str, Any]]:
    """The results in FOLDER so far; a line that was cut off does not count."""
    lines = [
        line for path in sorted(out.glob(f"{kind}-*.jsonl")) for line in path.read_text().splitlines(keepends=True)
    ]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def work(options: argparse.Namespace) -> None:
    """Claim units of a stage, one after the other, until none is left or the time is over."""
    # Ranks are then forks of a process that has everything imported: programs break many of them.
    forkserver.set_forkserver_preload(["problems.harness.trials", "tools.bench.wrong_programs", "torch._dynamo"])
    forkserver.ensure_running()
    begun, meetings = time.monotonic(), [Meeting(2), Meeting(4)]
    every = programs(options.slugs)
    ends = judgements(options.out, every)
    left = defaultdict(list)
    for program in every:
        if ends.get(program.name, {}).get("end") == "left":
            left[program.slug].append(program)
    if options.stage == "judge":
        units = {program.name: (judge, program) for program in every if program.name not in ends}
    else:
        done = drawn_blocks(options.out)
        blocks = [(slug, block) for block in range(EVEN_CALLS // BLOCK) for slug in options.slugs]
        units = {f"{unit}": (even, *unit, left[unit[0]]) for unit in blocks if unit not in done}
    # Whatever the time, every problem has met about as many inputs as any other.
    names = list(units) if options.stage == "even" else random.Random(SEED).sample(sorted(units), len(units))
    with (options.out / f"{options.stage}-{options.part}.jsonl").open("a", encoding="utf-8") as file:
        for name in names:
            if time.monotonic() - begun > options.seconds:
                break
            if _claimed(options.out / "claims" / hashlib.sha256(name.encode()).hexdigest()):
                task, *arguments = units[name]
                file.write(json.dumps(task(*arguments, meetings)) + "\n")
                file.flush()
    for meeting in meetings:
        meeting.close()


def _claimed(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def make(slugs: list[str], seed: int) -> None:
    """Write the changed programs of the problems."""
    from tools.bench.changes import made

    PROGRAMS.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(PROGRAMS, "wt", encoding="utf-8") as file:
        for slug in slugs:
            for change in made(slug, seed):
                file.write(json.dumps(vars(change)) + "\n")


def results(out: Path, slugs: list[str]) -> list[dict[str, Any]]:
    """Every program with its end: refused, missed, alike, or open where it has not met everything yet.

    Alike is what agreed on all even draws, and what a person has given a reason for (`why`) that it never erred in.
    """
    every = programs(slugs)
    ends = judgements(out, every)
    calls = Counter(slug for slug, _ in drawn_blocks(out))
    caught = {name: where for row in rows(out, "even") for name, where in row["caught"].items()}
    whys = {(row["slug"], row["operator"], row["place"]): row["why"] for row in recorded()["left"]}
    found = []
    for program in every:
        row = ends.get(program.name, {"end": "open", "where": ""})
        end, where, why = row["end"], row["where"], whys.get((program.slug, program.operator, program.place), "")
        if end == "left":
            where = where or caught.get(program.name, "")
            is_alike = why or calls[program.slug] * BLOCK >= EVEN_CALLS
            end = "missed" if where else "alike" if is_alike else "open"
        found.append({**vars(program), "end": end, "where": where, "why": why, "met": program.name in ends})
    return found


def recorded() -> dict[str, Any]:
    """What is kept: how many programs of each problem and operator were refused, each of the others, and draws."""
    if RESULTS.exists():
        return dict(json.loads(RESULTS.read_text(encoding="utf-8")))
    return {"drawn": {}, "refused": {}, "left": []}


def judgements(out: Path, every: list[Program]) -> dict[str, dict[str, str]]:
    """How the judgement of each program ended, by its name: in FOLDER, or else as it was kept.

    A program that is missed or alike was left by its judgement. Of a problem with kept draws, those that are not named
    were refused.
    """
    kept = recorded()
    left = {(row["slug"], row["operator"], row["place"]): row["where"] for row in kept["left"]}
    known = {}
    for program in every:
        place = (program.slug, program.operator, program.place)
        if program.slug in kept["drawn"]:
            end = "left" if place in left else "refused"
            known[program.name] = {"name": program.name, "end": end, "where": left.get(place, "")}
    return known | {row["name"]: row for row in rows(out, "judge")}


def drawn_blocks(out: Path) -> set[tuple[str, int]]:
    """The blocks of even draws that each problem has met, in FOLDER or as they were kept."""
    kept = {(slug, block) for slug, draws in recorded()["drawn"].items() for block in range(draws // BLOCK)}
    return kept | {(row["slug"], row["block"]) for row in rows(out, "even")}


def record(out: Path, found: list[dict[str, Any]]) -> None:
    """Keep the results; a program that no judgement has met yet is left out."""
    blocks = drawn_blocks(out)
    drawn = {  # those without a gap: the next call draws from there on
        slug: BLOCK * next(block for block in itertools.count() if (slug, block) not in blocks)
        for slug in sorted({slug for slug, _ in blocks})
    }
    refused = Counter(f"{row['slug']} {row['operator']}" for row in found if row["end"] == "refused")
    fields = ("slug", "operator", "place", "before", "after", "end", "where", "why")
    left = [{name: row[name] for name in fields} for row in found if row["met"] and row["end"] != "refused"]
    lines = ",\n".join(json.dumps(row) for row in left)
    parts = f'"drawn": {json.dumps(drawn, indent=1)},\n"refused": {json.dumps(refused, indent=1)}'
    RESULTS.write_text(f'{{{parts},\n"left": [\n{lines}\n]}}\n', encoding="utf-8")


ENDS = ("refused", "missed", "alike", "open")


def table(found: list[dict[str, Any]]) -> Iterator[str]:
    """Counts in all, by operator and by problem, with the share of wrong programs that is refused."""
    for key in ("all", "operator", "slug"):
        counts = Counter((row.get(key, "all"), row["end"]) for row in found)
        yield f"{key:46}" + "".join(f"{end:>8}" for end in ENDS)
        for name in sorted({name for name, _ in counts}):
            wrong_ones = counts[name, "refused"] + counts[name, "missed"]
            share = f"{counts[name, 'refused'] / wrong_ones:8.1%}" if wrong_ones else "       -"
            yield f"{name:46}" + "".join(f"{counts[name, end]:8}" for end in ENDS) + share


def main() -> None:
    """Make, meet or count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=("make", "judge", "even", "table"))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=PROGRAMS.parent / "results")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--record", action="store_true")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="default: every problem")
    options = parser.parse_intermixed_args()
    options.slugs = options.slugs or [problem.slug for problem in registry.problems()]
    options.out.mkdir(parents=True, exist_ok=True)
    if options.stage == "make":
        make(options.slugs, options.seed)
    elif options.stage != "table":
        work(options)
    else:
        found = results(options.out, options.slugs)
        if options.record:
            record(options.out, found)
        print(*table(found), sep="\n")
        honest = rows(options.out, "even")
        print(
            "honest calls",
            sum(row["calls"] for row in honest),
            "refused",
            sum(len(row["honest_refused"]) for row in honest),
        )
        print(
            *(line for row in honest for line in (f"{row['slug']} {each}" for each in row["honest_refused"])), sep="\n"
        )
        missed = [row for row in found if row["end"] == "missed"]
        names = ("slug", "operator", "place", "before", "after", "where")
        print(*(" | ".join(row[name] for name in names) for row in missed), sep="\n")


if __name__ == "__main__":
    main()
