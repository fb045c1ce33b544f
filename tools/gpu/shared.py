# A table on standard output is what it is for.
"""Everything that ranks on one shared GPU can judge, judged: does each program get the verdict that it must get?

    python -m tools.gpu.shared --out FILE.jsonl [--profile gpu1r2 ...] [--group references ...] [--seconds 540]
                               [--side-by-side] [--table]

Groups, each on every profile that it fits: `row` is one check, 30 times. `references`, `entries` (our own kernels),
`cheats` and `breaking` say what they are. `kernels` are the programs of tests/evaluator for GPUs and primitives, and
`programs` those for any ranks. A second call judges what has no verdict yet.
FILE.jsonl has a line per judgement; the whole reports lie in the folder of the same name, and another machine goes on
from the file alone. With --side-by-side 8 ranks are judged beside the other profiles. Prints a table, and exits 1
where a verdict differs or something is left.
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import msgspec

from evaluator.batch import Batch, Results
from evaluator.contract import Backend, EvaluationRequest, Mode, SourceBundle, SourceFile, Verdict
from evaluator.hardware import profiles
from evaluator.host import JudgeSettings
from evaluator.host.build_ahead import builders_here
from evaluator.host.machine import facts, nvml
from evaluator.host.machine.gpus import gpus_for
from evaluator.host.sandbox import cgroups
from evaluator.sources import read_source
from problems import registry
from problems.spec.memory import held_bytes
from tests.evaluator import cheat_corpus
from tests.evaluator.breaking_programs import PROGRAMS as BREAKING
from tests.evaluator.breaking_programs import RETURNING
from tests.evaluator.program_verdicts import BROKEN, PRIMITIVES, PROGRAMS, RIGHT

SHARED = tuple(name for name, profile in profiles.profiles().items() if profile.shares_gpu)
SUBMISSIONS = Path(__file__).parents[2] / "tests" / "evaluator" / "submissions"
OURS = {Verdict.JUDGE_ERROR, Verdict.JUDGE_FAILURE}
ANY = set(Verdict) - OURS
PASSES, MAY_BE_LARGE, LARGE_GB = {Verdict.PASSED}, {Verdict.PASSED, Verdict.UNSUPPORTED}, 16
ROW = 30


def main():
    options = parsed()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    ends_at = time.monotonic() + options.seconds
    if not options.table:
        if options.side_by_side and len(options.profile) > 1:
            side_by_side(options)
        else:
            for name in options.profile:
                judge(options, name, ends_at=ends_at)
    return report(options)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl")
    parser.add_argument("--profile", action="append", choices=SHARED)
    parser.add_argument("--group", action="append", choices=list(GROUPS))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="every process has ended before so many")
    parser.add_argument("--builders", type=int, help="how many compile at once (default: as a node does)")
    parser.add_argument("--starts-ahead", type=int, help="worker groups that start ahead (default: as a node does)")
    parser.add_argument("--side-by-side", action="store_true", help="8 ranks beside the other profiles")
    parser.add_argument("--work-dir", type=Path, help="for the judge's files and the cache of builds")
    parser.add_argument("--table", action="store_true", help="judge nothing, only print the table")
    options = parser.parse_args()
    options.profile = options.profile or list(SHARED)
    options.group = options.group or list(GROUPS)
    return options


# --- what is judged ---------------------------------------------------------------------------------------------------


def asked(name, problem, source, backend, accepted, *, mode=Mode.CHECK):
    """One program as (its name, what makes its request for a profile, the verdicts that are right)."""
    if isinstance(source, str):
        source = SourceBundle(files=(SourceFile(path="solution.py", text=source),))
    return name, partial(requested, problem=problem, source=source, backend=backend, mode=mode), set(accepted)


def requested(profile, evaluation_id, *, problem, source, backend, mode):
    """The request, or None where the problem does not run on so many ranks."""
    if registry.get(problem).refuses(profile.world_size, profile.sizes[mode]) is not None:
        return None
    return EvaluationRequest(
        evaluation_id=evaluation_id,
        problem=problem,
        revision=registry.revision(problem),
        source=source,
        backend=backend,
        profile=profile.name,
        mode=mode,
    )


def row(_profile):
    text = (SUBMISSIONS / "correct.py").read_text()
    return [asked(f"{n:02}", "allreduce", text, Backend.PYTORCH, {Verdict.PASSED}) for n in range(ROW)]


def references(profile):
    """Those whose tensors fill most of a usual GPU may be refused for that."""
    every = registry.problems()
    large = {each.slug for each in every if held_gb(each, profile) > LARGE_GB}
    return [
        asked(slug, slug, registry.reference_source(slug), Backend.PYTORCH, MAY_BE_LARGE if slug in large else PASSES)
        for slug in (each.slug for each in every)
    ]


def held_gb(problem, profile):
    return profile.world_size * held_bytes(problem, problem.dims("base", profile.world_size)) / 1e9


def entries(_profile):
    return [
        asked(path.stem, path.stem, read_source(path), Backend.CUDA, {Verdict.PASSED}, mode=Mode.RANKED)
        for path in sorted((registry.DATA / "entries").glob("*.py"))
    ]


def kernels(profile):
    right = [(name, problem, backend, {Verdict.PASSED}) for name, problem, backend in RIGHT]
    broken = [(name, problem, Backend.CUDA, verdicts) for name, problem, verdicts in BROKEN]
    kept = [(f"gpu_scatter_{name}", "scatter") for name in ("kept_buffer", "new_buffers")]
    scatters = [(name, problem, Backend.PYTORCH, {Verdict.PASSED}) for name, problem in kept]
    primitives = [
        (name, "allgather", backend, {verdict if backend in profile.backends else Verdict.UNSUPPORTED})
        for name, backend, verdict in PRIMITIVES
    ]
    return [
        asked(name, problem, (SUBMISSIONS / f"{name}.py").read_text(), backend, accepted)
        for name, problem, backend, accepted in (*right, *broken, *scatters, *primitives)
    ]


def programs(profile):
    # Their words are of two ranks; so are some of the programs.
    chosen = PROGRAMS if profile.world_size == 2 else [each for each in PROGRAMS if each[0] in ("correct", "segfault")]
    return [
        asked(name, "allreduce", (SUBMISSIONS / f"{name}.py").read_text(), Backend.PYTORCH, {verdict})
        for name, verdict, _, _ in chosen
    ]


def cheats(profile):
    """Cheats and twins; where nothing is timed, one that only gains time may pass."""
    found = []
    for name, each in cheat_corpus.programs().items():
        if profile.world_size > 2 or "GPUs" not in each.needs or not each.runs_on(profile):
            continue
        accepted = set(each.accepted) | (set() if each.is_twin or not each.mode.is_timed else {Verdict.PASSED})
        made = partial(cheat, of=each)
        found.append((name, made, accepted))
    return found


def cheat(profile, evaluation_id, *, of):
    sizes = tuple(size for size in of.sizes if size in profile.known_sizes)
    return msgspec.structs.replace(of.request(profile=profile.name), evaluation_id=evaluation_id, sizes=sizes)


def breaking(profile):
    if profile.world_size > 2:
        return []
    # Whoever returns something else tampers with nothing.
    accepted = {name: ANY - {Verdict.TAMPERED} if name in RETURNING else ANY for name in BREAKING}
    return [
        asked(name.replace(" ", "_").replace("/", "-"), "allreduce", text, Backend.PYTORCH, accepted[name])
        for name, text in sorted(BREAKING.items())
    ]


GROUPS = {
    "row": row,
    "references": references,
    "kernels": kernels,
    "entries": entries,
    "programs": programs,
    "cheats": cheats,
    "breaking": breaking,
}


def everything(groups, profile):
    """By evaluation id: request and accepted verdicts, in the order of judging."""
    found = {}
    for group in groups:
        for name, make, accepted in GROUPS[group](profile):
            key = f"{group}.{name}"
            request = make(profile, key)
            if request is not None:
                found[key] = (request, accepted)
    return found


# --- judging ----------------------------------------------------------------------------------------------------------


def judge(options, name, *, ends_at):
    profile = profiles.get(name)
    cgroups.enter_leaf_group()
    if options.work_dir is not None:
        options.work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted, began = everything(options.group, profile), time.monotonic()
    results = results_of(options, name)
    cold = len(results.lines)
    memory = [round(state.used_bytes / 1e9, 1) for state in nvml.read(gpus_for(profile))]

    def say(text):
        nonlocal cold
        if cold is not None and len(results.lines) > cold:
            cold = None
            print(f"{name}: the first verdict came {time.monotonic() - began:.1f} s after the start", flush=True)
            note_facts(options, name, before=memory, profile=profile, cold_s=time.monotonic() - began)
        print(f"{name} {text}", flush=True)

    batch = Batch(
        settings=JudgeSettings(profile=name, work_dir=options.work_dir, starts_ahead=options.starts_ahead),
        builders=builders_here(profile) if options.builders is None else options.builders,
        waiting=8,
        ends_at=ends_at,
        results=results,
        say=say,
    )
    quarantine = batch.run([request for request, _ in wanted.values()])
    print(f"{name}: {batch.summary()}", flush=True)
    if quarantine:
        print(f"{name}: the slot is in QUARANTINE: {quarantine}", flush=True)


def note_facts(options, name, *, before, profile, cold_s):
    """What the machine is, and the GPU's memory with all ranks of this profile and those that wait."""
    now = [round(state.used_bytes / 1e9, 1) for state in nvml.read(gpus_for(profile))]
    found = {**facts.environment(), "used_gb_before": before, "used_gb_after_first": now, "cold_s": round(cold_s, 1)}
    (folder(options, name) / "facts.json").write_text(json.dumps(found, indent=1))
    print(f"{name}: GB of GPU memory in use before {before} and with its ranks {now}", flush=True)


def side_by_side(options):
    """Two lanes of this program: 8 ranks, and the other profiles one after the other."""
    most = [name for name in options.profile if profiles.get(name).world_size == 8]
    lanes = [lane for lane in (most, [name for name in options.profile if name not in most]) if lane]
    # Both lanes' ranks have to fit: fewer groups start ahead.
    ahead = ["--starts-ahead", str(1 if options.starts_ahead is None else options.starts_ahead)]
    running = []
    for lane in lanes:
        own = [*ahead, "--seconds", str(options.seconds - 5), "--out", str(options.out)]
        own += [word for name in lane for word in ("--profile", name)]
        own += [word for group in options.group for word in ("--group", group)]
        own += ["--work-dir", f"{options.work_dir}-{lane[0]}"] if options.work_dir else []
        own += ["--builders", str(options.builders)] if options.builders is not None else []
        running.append(subprocess.Popen([sys.executable, "-m", "tools.gpu.shared", *own]))
    for process in running:
        process.wait()


# --- the table ----------------------------------------------------------------------------------------------------


def folder(options, name):
    return options.out.with_suffix("") / name


def results_of(options, name):
    """The results of a profile; lines that another machine brought in FILE.jsonl come into its folder first."""
    own = folder(options, name)
    if not own.exists() and options.out.is_file():
        brought = [json.loads(line) for line in options.out.read_text().splitlines()]
        own.mkdir(parents=True)
        lines = [json.dumps(each) + "\n" for each in brought if each["profile"] == name]
        (own / "results.jsonl").write_text("".join(lines))
    return Results(own)


def report(options):
    """Write FILE.jsonl anew from the folders and print the table; the exit status."""
    every, left = [], []
    for name in SHARED:
        wanted = everything(GROUPS, profiles.get(name))
        lines = {line.evaluation_id: line for line in results_of(options, name).lines}
        if name in options.profile:
            left += [f"{name} {key}" for key in wanted if key not in lines and key.partition(".")[0] in options.group]
        for key, line in lines.items():
            if key in wanted:
                fits = line.verdict in wanted[key][1]
                every.append({"group": key.partition(".")[0], "fits": fits, **json.loads(line.to_json())})
    scratch = options.out.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_text("".join(json.dumps(each) + "\n" for each in every))
    scratch.replace(options.out)
    rows = [each for each in every if each["profile"] in options.profile and each["group"] in options.group]
    grouped = collections.defaultdict(list)
    for each in rows:
        grouped[each["group"], each["profile"]].append(each)
    for (group, name), found in grouped.items():
        print(shown(group, name, found))
    for each in rows:
        if not each["fits"]:
            print(f"DIFFERS {each['profile']} {each['evaluation_id']}: {each['verdict']}: {each['message'][:300]}")
    print(f"{len(rows)} judged, {sum(not each['fits'] for each in rows)} differ, {len(left)} are left")
    if 0 < len(left) <= 20:
        print("left: " + ", ".join(left))
    return 1 if left or not all(each["fits"] for each in rows) else 0


def shown(group, name, found):
    verdicts = collections.Counter(each["verdict"] for each in found)
    gaps = sorted(each["gap_s"] for each in found[1:] if each["gap_s"] is not None)
    judged = sorted(each["judged_s"] for each in found if each["judged_s"])
    builds = sorted(each["build_s"] for each in found if each["build_s"])
    text = f"{group} {name}: " + ", ".join(f"{verdict} {count}" for verdict, count in sorted(verdicts.items()))
    for words, values in (("judged", judged), ("to the next first call", gaps), ("build", builds)):
        if values:
            ninth = values[min(len(values) - 1, int(0.9 * len(values)))]
            text += f"; {words} {statistics.median(values):.2f} s, nine in ten {ninth:.2f} s"
    if judged:
        text += f"; {3600 / statistics.mean(each['judged_s'] + each['idle_s'] for each in found):.0f} verdicts an hour"
    return text


if __name__ == "__main__":
    sys.exit(main())
