# ruff: noqa: T201
# A table on standard output is what it is for.
"""How close honest programs come to their bounds on this machine's GPUs, at the sizes that are ranked.

    python -m tests.problems.on_gpus --world-size 2 [--size base,large] [--calls 2] [SLUG ...]

Bounds are calibrated on CPU ranks at `tiny`; an output of `large` has up to a million times as many elements, whose
extremes lie further out. Prints, per problem and size, the largest error of the reference and of every honest variant
in units of the bound, and their rms error in units of its bound. Exits 1 if one is refused.
"""

import argparse
import ctypes
import multiprocessing
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from problems import registry
from tests.evaluator.gpu_try import NO_MULTICAST, PR_SET_PDEATHSIG, Member, synchronize, wait_for, write_note


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--size", default="base,large", help="names of sizes, with commas between")
    parser.add_argument("--calls", type=int, default=2, help="contents per program")
    parser.add_argument("--seconds", type=float, default=20, help="limit for one problem at one size")
    parser.add_argument("--reference-only", action="store_true", help="leave the honest variants out")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="default: every problem")
    options = parser.parse_args()
    os.environ |= NO_MULTICAST
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sizes = options.size.split(",")
    slugs = [registry.get(slug).slug for slug in options.slugs] or [problem.slug for problem in registry.problems()]
    runnable = [slug for slug in slugs if registry.get(slug).refuses(options.world_size, tuple(sizes)) is None]
    jobs = [(slug, size, secrets.token_hex(32)) for slug in runnable for size in sizes]
    folder = Path(tempfile.mkdtemp(prefix="on_gpus_"))
    try:
        return 1 if run_all(jobs, options, folder=folder) else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_all(jobs, options, *, folder):
    """Judge the jobs in one worker group; where one breaks it, the rest in a new one. Returns refusals and breaks."""
    done = failed = 0
    while done < len(jobs):
        where = Path(tempfile.mkdtemp(prefix="group_", dir=folder))
        ranks = start(jobs[done:], options, where=where)
        try:
            for index, (slug, size, _) in enumerate(jobs[done:]):
                started = time.monotonic()
                limit = options.seconds + (30 if index == 0 else 0)
                notes, is_whole = wait_for(ranks, where=where, index=index, seconds=limit)
                failed += report(slug, size, notes, time.monotonic() - started)
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
                found = judge(member, slug, size, key=bytes.fromhex(key), options=options)
                write_note(Path(where) / f"{index}_{rank}.json", found)
                torch.cuda.empty_cache()
    except BaseException:  # noqa: BLE001 - whatever it is, the parent prints it
        write_note(Path(where) / f"{index}_{rank}.json", {"error": traceback.format_exc()[-1500:]})
    signal.pause()  # the parent reads the notes of all ranks before it ends them


def judge(member, slug, size, *, key, options):
    """Per program and output the largest error and rms error on this rank, in units of their bounds."""
    import torch

    from problems import implementation
    from problems.schema import SizeName
    from problems.values import Call

    kind = implementation.load(slug)
    dims = kind.problem.dims(SizeName(size), member.world_size)
    programs = {"reference": kind.solution} | ({} if options.reference_only else dict(kind.honest))
    found = {}
    for index in range(options.calls):
        call = Call(
            key=key,
            index=index,
            rank=member.rank,
            world_size=member.world_size,
            dims=dims,
            dtype=torch.bfloat16,
            device=member.device,
        )
        expected = kind.expected(call)
        for name, program in programs.items():
            try:
                compared = kind.check(call, kind.run(program, call), expected)
            except (RuntimeError, TypeError, ValueError) as error:
                synchronize(member.device)  # raises again where the device is lost
                found[f"{name} ({str(error).strip().splitlines()[0][:150]})"] = (0.0, 0.0, 1)
                continue
            for output, item in zip(kind.problem.outputs, compared, strict=True):
                rms = item.rms_error / output.tolerance.rms if output.tolerance.rms else 0.0
                before = found.get(f"{name} {output.name}", (0.0, 0.0, 0))
                is_refused = before[2] + (not item.passed)
                found[f"{name} {output.name}"] = (max(before[0], item.max_error), max(before[1], rms), is_refused)
    return found


def report(slug, size, notes, seconds):
    """Print one problem at one size, and return 1 if something was refused or broke."""
    broken = [note["error"] for note in notes if note is not None and "error" in note]
    if broken or None in notes:
        print(f"BROKEN {slug} {size} {seconds:.1f} s: {broken[0].strip().splitlines()[-1] if broken else 'silent'}")
        return 1
    refused = 0
    for program in sorted({program for note in notes for program in note}):
        met = [note[program] for note in notes if program in note]
        largest, rms, wrong = (max(found[index] for found in met) for index in range(3))
        refused += bool(wrong)
        verdict = "REFUSED" if wrong else "ok"
        print(f"{verdict:7} {slug} {size} {program}: {largest:.3f} of the bound, rms {rms:.3f}", flush=True)
    print(f"        {slug} {size} took {seconds:.1f} s", flush=True)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
