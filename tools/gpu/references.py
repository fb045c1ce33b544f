# JSON lines on standard output are what it is for.
"""Honest programs on this machine's GPUs, in calls like the timed ones and in every regime: refusals and margins.

    python -m tools.gpu.references --world-size 2 [--size base,tiny,large] [--seconds 1] [--budget 220]
        [--kept FILE] [SLUG ...]

Bounds are calibrated on CPU ranks at `tiny`; an output of `large` has up to a million times as many elements, whose
extremes lie further out. Honest programs are those of `many_regimes`. A call is drawn like the timed ones or in a
regime, regimes in a drawn order. Every program makes it, and the judge's comparison decides. A problem at a size gets
`--seconds` of such calls, after the first. No job starts after `--budget` seconds.

Prints a JSON line per problem and size, and appends it to `--kept`, whose problems and sizes are left out the next
time. Without CUDA the ranks use gloo on the processor; with fewer GPUs than ranks, ranks share them. Exits 1 if a call
was refused or ranks broke.
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from problems import registry
from problems.spec.schema import SizeName
from tools.gpu.programs import NO_MULTICAST, PR_SET_PDEATHSIG, Member, synchronize, wait_for, write_note

GRACE_S = 20
"""How long a job may last beyond its seconds, which count from its second call: groups are made in the first one."""
START_S = 60


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--size", default="base,tiny,large", help="names of sizes, with commas between, in this order")
    parser.add_argument("--calls", type=int, default=10_000, help="draws of a problem at a size, at the most")
    parser.add_argument("--seconds", type=float, default=1, help="of a problem at a size")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no job starts")
    parser.add_argument("--kept", type=Path, help="JSON lines of jobs that need not run again")
    parser.add_argument("--usual-only", action="store_true", help="leave the regimes out")
    parser.add_argument("--reference-only", action="store_true", help="leave the honest variants out")
    parser.add_argument("--regime", default="", help="draw this regime alone, where a problem has it")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="default: every problem")
    options = parser.parse_args()
    options.deadline = time.monotonic() + options.budget
    os.environ |= NO_MULTICAST
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="on_gpus_"))
    try:
        return 1 if run_all(jobs_of(options), options, folder=folder) else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def jobs_of(options):
    """Slug, size and key of every job that is not done, size by size."""
    lines = options.kept.read_text().splitlines() if options.kept and options.kept.exists() else []
    done = {(line["problem"], line["size"]) for line in map(json.loads, lines)}
    problems = [registry.get(slug) for slug in options.slugs] or list(registry.problems())
    return [
        (problem.slug, size, secrets.token_hex(32))
        for size in options.size.split(",")
        for problem in problems
        if problem.refuses(options.world_size, [size]) is None and (problem.slug, size) not in done
        if not options.regime or options.regime in [regime.name for regime in problem.regimes]
    ]


def run_all(jobs, options, *, folder):
    """Try the jobs in one worker group; where one breaks it, the rest in a new one. Returns refusals and breaks."""
    done = failed = 0
    while done < len(jobs) and time.monotonic() < options.deadline:
        where = Path(tempfile.mkdtemp(prefix="group_", dir=folder))
        ranks = start(jobs[done:], options, where=where)
        try:
            for index, (slug, size, _) in enumerate(jobs[done:]):
                limit = options.seconds + GRACE_S + (START_S if index == 0 else 0)
                notes, is_whole = wait_for(ranks, where=where, index=index, seconds=limit)
                if any(note is not None and note.get("late") for note in notes):
                    done = len(jobs)
                    break
                failed += report(slug, size, notes, options)
                done += 1
                if not is_whole:
                    break
        finally:
            for process in ranks:
                process.kill()
            for process in ranks:
                process.join()
    return failed


def start(jobs, options, *, where):
    (where / "barrier").write_bytes(bytes(os.sysconf("SC_PAGE_SIZE")))
    context = multiprocessing.get_context("spawn")
    ranks = [
        context.Process(target=rank_main, args=(rank, options, jobs, str(where)), daemon=True)
        for rank in range(options.world_size)
    ]
    for process in ranks:
        process.start()
    return ranks


def rank_main(rank, options, jobs, where):
    import torch

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    index = 0
    try:
        member = Member(rank, options.world_size, Path(where))
        with torch.no_grad():
            for index, (slug, size, key) in enumerate(jobs):
                if not agrees(member, time.monotonic() < options.deadline):
                    write_note(Path(where) / f"{index}_{rank}.json", {"late": True})
                    break
                found = tried(member, slug, size, key=bytes.fromhex(key), options=options)
                write_note(Path(where) / f"{index}_{rank}.json", found)
                if member.device.type == "cuda":
                    torch.cuda.empty_cache()
    except BaseException:  # noqa: BLE001 - whatever it is, the parent prints it
        write_note(Path(where) / f"{index}_{rank}.json", {"error": traceback.format_exc()[-1500:]})
    signal.pause()  # the parent reads the notes of all ranks before it ends them


def agrees(member, is_so):
    """Whether it is so on rank 0: all ranks go on or stop together."""
    import torch
    import torch.distributed as dist

    flag = torch.tensor([int(is_so)], device=member.device)
    dist.broadcast(flag, src=0)
    return bool(flag.item())


def tried(member, slug, size, *, key, options):
    """Calls on this rank until the seconds are over: by kind and program, and what was refused or raised."""
    from problems.harness import implementation
    from problems.harness.mutants import ORDERS
    from tests.problems.wires import programs

    kind = implementation.load(slug)
    names = ["reference"] if options.reference_only else programs(kind.problem)
    made = {"reference": kind.solution}
    made |= {f"honest:{name}": on(member.device, program) for name, program in kind.honest.items()}
    found = {"calls": 0, "kinds": 0, "elements": 0, "beyond": 0, "worst": 0.0, "at": "", "refused": [], "raised": []}
    begin = time.monotonic()
    for index, regime in enumerate(kinds(kind.problem, size, member.world_size, key=key, options=options)):
        if index and not agrees(member, time.monotonic() - begin < options.seconds):
            break
        call = call_of(member, kind.problem, size, key=key, index=index, regime=regime)
        pairs = zip(kind.problem.outputs, kind.expected(call), strict=True)
        expected = tuple(right.cpu() if output.on_host else right for output, right in pairs)
        found["kinds"] += 1
        for name in names:
            if found["calls"] and not agrees(member, time.monotonic() - begin < options.seconds):
                break
            where = f"{regime.name if regime else 'as timed'}, {name}"
            try:
                actual = kind.run(made[name], call) if name in made else ORDERS[name.partition(":")[2]](kind, call)
                actual = tuple(left.to(right.device) for left, right in zip(actual, expected, strict=True))
                compared = kind.check(call, actual, expected)
            except (RuntimeError, TypeError, ValueError) as error:
                synchronize(member.device)  # raises again where the device is lost
                found["raised"].append(f"{where}: {str(error).strip().splitlines()[0][:150]}")
                continue
            finally:
                actual = None
            found["calls"] += 1
            if index == 0 and found["calls"] == 1:
                begin = time.monotonic()
            note_errors(found, where, zip(kind.problem.outputs_in(regime), compared, strict=True), key=key, index=index)
    return found | {"seconds": time.monotonic() - begin}


def on(device, program):
    """`program`, where what it makes without saying where is on `device`: variants are written short."""

    def placed(*arguments):
        with device:
            return program(*arguments)

    return placed


def kinds(problem, size, world_size, *, key, options):
    """None for a call like the timed ones, else its regime: as timed, all regimes and several at once, and again."""
    from evaluator.host.measure import covering

    regimes = [] if options.usual_only else list(problem.regimes_at(SizeName(size), world_size))
    drawn = random.Random(key)
    if options.regime:
        regimes = [regime for regime in regimes if regime.name == options.regime]
    else:
        regimes += [covering.joined(call) for call in covering.covering(regimes, len(regimes), drawn)]
    drawn.shuffle(regimes)
    order = regimes if options.regime else [None, *regimes]
    for index in range(options.calls):
        if order:
            regime = order[index % len(order)]
            yield regime and regime.drawn(drawn)


def call_of(member, problem, size, *, key, index, regime):
    import torch

    from problems.inputs.values import Call

    return Call(
        key=key,
        index=index,
        rank=member.rank,
        world_size=member.world_size,
        dims=problem.dims(SizeName(size), member.world_size, regime),
        dtype=torch.bfloat16,
        device=member.device,
        regime=regime,
    )


def note_errors(found, where, pairs, *, key, index):
    """Add what one call of one program compared."""
    for output, item in pairs:
        rms = item.rms_error / output.tolerance.rms if output.tolerance.rms else 0.0
        largest = min(max(item.max_error, rms), 1e9)
        found["elements"] += item.elements
        found["beyond"] += item.wrong_elements + item.extreme_elements
        if largest > found["worst"]:
            found["worst"], found["at"] = largest, f"{where}, {output.name}"
        if not item.passed:
            found["refused"].append(
                f"{where}, {output.name}: {item.wrong_elements} of {item.elements} elements, at most "
                f"{min(item.max_error, 1e9):.3g} of the bound, rms {rms:.3g} of its bound; "
                f"key {key.hex()}, call {index}"
            )


def report(slug, size, notes, options):
    """Print one problem at one size and keep the line; returns 1 if something was refused or broke."""
    broken = [note["error"] for note in notes if note is not None and "error" in note]
    line = {"problem": slug, "size": size, "ranks": len(notes)}
    if broken or None in notes:
        line["broken"] = broken[0].strip().splitlines()[-1] if broken else "silent"
    else:
        worst = max(notes, key=lambda note: note["worst"])
        line |= {
            "calls": notes[0]["calls"],
            "kinds": notes[0]["kinds"],
            "elements": sum(note["elements"] for note in notes),
            "beyond": sum(note["beyond"] for note in notes),
            "worst": round(worst["worst"], 4),
            "at": worst["at"],
            "refused": [what for note in notes for what in note["refused"]],
            "raised": [what for note in notes for what in note["raised"]],
            "seconds": round(notes[0]["seconds"], 2),
        }
    text = json.dumps(line)
    print(text, flush=True)
    if options.kept:
        with options.kept.open("a") as kept:
            kept.write(text + "\n")
    return int(bool(line.get("broken") or line.get("refused") or line.get("raised")))


if __name__ == "__main__":
    sys.exit(main())
