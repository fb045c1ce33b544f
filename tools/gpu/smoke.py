# ruff: noqa: SLF001
# A table on standard output is what it is for; torch.cuda._sleep is the only way to delay a stream.
"""Try the GPU submissions on the GPUs of this machine without the judge: build, compare, time, break, clean up.

    python tools/gpu/smoke.py [--gpus N] [--skip-broken]

Needs torch with CUDA, nvcc and g++; nothing else of this project's requirements. Prints a table and exits 0 when every
right submission is right, every wrong one is caught and no process or memory is left on the GPUs.
"""

import argparse
import ctypes
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUBMISSIONS = ROOT / "tests" / "evaluator" / "submissions"
COMPAT = ROOT / "evaluator" / "arena" / "compat"
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
BUILT = (
    "gpu_allgather",
    "gpu_gemm_allreduce",
    "gpu_gemm_allreduce_wrong",
    "gpu_allgather_hanging",
    "gpu_allgather_illegal",
    "gpu_allgather_compile_error",
)
RIGHT = ("gpu_allgather", "gpu_gemm_allreduce", "gpu_allgather_triton")
PR_SET_PDEATHSIG = 1
TOLERANCE = 0.03  # of the oracle's rms: honest rounding stays under it, a missing rank is 20 times over it


def main():
    arguments = parse()
    os.environ |= NO_MULTICAST
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    gpus = smi("--query-gpu=name").splitlines()
    world = arguments.gpus or len(gpus)
    folder = Path(tempfile.mkdtemp(prefix="gpu_smoke_"))
    os.environ["PKB_EXTENSION_CACHE"] = str(folder / "extensions")
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    try:
        before = memory_used()
        print(
            f"{world} of {len(gpus)} x {gpus[0]}, Python {sys.version.split()[0]}, MiB used before {before}", flush=True
        )
        ok = report_builds(build_all())
        for name in RIGHT:
            ok &= report_right(name, run_group(name, "measure", world=world, folder=folder, seconds=60))
        if not arguments.skip_broken:
            ok &= report_wrong(run_group("gpu_gemm_allreduce_wrong", "compare", world=world, folder=folder, seconds=45))
            ok &= report_illegal(run_group("gpu_allgather_illegal", "once", world=world, folder=folder, seconds=45))
            ok &= report_hanging(run_group("gpu_allgather_hanging", "once", world=world, folder=folder, seconds=20))
        ok &= report_leftovers(before)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("SMOKE", "PASSED" if ok else "FAILED")
    return 0 if ok else 1


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, help="how many GPUs to use; default all")
    parser.add_argument("--skip-broken", action="store_true", help="leave out the wrong, crashing and hanging ones")
    return parser.parse_args()


# --- building -------------------------------------------------------------------------------------------------------


def build_all():
    """Build every extension at once, one process each: (name, seconds, text) in the order of BUILT."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]; import importlib; importlib.import_module(sys.argv[3]).extension()"
    )
    started = time.monotonic()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(COMPAT), str(SUBMISSIONS), name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=SUBMISSIONS,
        )
        for name in BUILT
    ]
    found = []
    for name, process in zip(BUILT, running, strict=True):
        try:
            said, _ = process.communicate(timeout=max(1, 180 - (time.monotonic() - started)))
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        found.append((name, process.returncode, time.monotonic() - started, said))
    return found


def report_builds(found):
    ok = True
    for name, code, seconds, said in found:
        fails = name.endswith("compile_error")
        right = ("error: identifier" in said and "(8)" in said) if fails else code == 0
        ok &= right
        print(f"{mark(right)} build {name}: exit {code}, done at {seconds:.1f} s")
        if not right:
            print(said[-3000:])
    return ok


# --- worker groups ---------------------------------------------------------------------------------------------------


def run_group(name, job, *, world, folder, seconds):
    """Run `job` with submission `name` on `world` ranks; no rank outlives this call. Gives what each rank wrote."""
    where = Path(tempfile.mkdtemp(prefix=f"{name}_", dir=folder))
    context = multiprocessing.get_context("spawn")
    ranks = [
        context.Process(target=rank_main, args=(rank, world, name, job, str(where)), daemon=True)
        for rank in range(world)
    ]
    started = time.monotonic()
    for process in ranks:
        process.start()
    timed_out = False
    try:
        for process in ranks:
            process.join(timeout=max(0.1, seconds - (time.monotonic() - started)))
        timed_out = any(process.is_alive() for process in ranks)
    finally:
        for process in ranks:
            if process.is_alive():
                process.kill()
        for process in ranks:
            process.join()
    notes = [read_note(where / f"rank{rank}.json") for rank in range(world)]
    return {
        "notes": notes,
        "exits": [process.exitcode for process in ranks],
        "timed_out": timed_out,
        "seconds": time.monotonic() - started,
    }


def read_note(path):
    return json.loads(path.read_text()) if path.exists() else {}


def rank_main(rank, world, name, job, where):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    note = Path(where) / f"rank{rank}.json"
    code = 1
    try:
        found = JOBS[job](rank, world, *load(rank, world, name, where))
        write_note(note, {"found": found})
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent prints it
        write_note(note, {"error": traceback.format_exc()[-4000:]})
    os._exit(code)  # destructors of a broken context may hang


def write_note(path, content):
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content))
    partial.rename(path)


def load(rank, world, name, where):
    """Join the process group on this rank's GPU and import the submission: (kind, solution)."""
    import torch
    import torch.distributed as dist

    sys.path.insert(0, str(COMPAT))
    torch.cuda.set_device(rank)
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group(
        "nccl",
        init_method=f"file://{where}/store",
        rank=rank,
        world_size=world,
        device_id=torch.device("cuda", rank),
    )
    spec = importlib.util.spec_from_file_location("solution", SUBMISSIONS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return "gemm_allreduce" if "gemm" in name else "allgather", module.solution


# --- what a rank does -----------------------------------------------------------------------------------------------


def once(rank, _world, kind, solution):
    import torch

    solution(*draw(kind, rank, 0, (256, 256, 256)))
    torch.cuda.synchronize()
    return "ended"


def compare(rank, world, kind, solution):
    """Largest error over fresh calls at several shapes, in units of the oracle's rms."""
    return {str(shape): compare_shape(rank, world, kind, solution, shape) for shape in shapes(kind)}


def measure(rank, world, kind, solution):
    errors = compare(rank, world, kind, solution)
    times = {str(shape): time_shape(rank, world, kind, solution, shape) for shape in shapes(kind)[1:]}
    return {"errors": errors, "times": times}


def shapes(kind):
    """(rows, columns, inner): one that fits no vector, the card's base size, a large one."""
    inner = (24, 512, 2048) if kind == "gemm_allreduce" else (0, 0, 0)
    return tuple(zip((33, 1024, 8192), (17, 1024, 8192), inner, strict=True))


def draw(kind, rank, call, shape):
    """This rank's inputs of call number `call`, new on every call and rank."""
    import torch

    rows, columns, inner = shape
    generator = torch.Generator(device="cuda").manual_seed(1_000_003 * (call + 1) + rank)

    def normal(*size):
        return torch.randn(size, device="cuda", generator=generator).to(torch.bfloat16)

    return (normal(rows, inner), normal(inner, columns)) if kind == "gemm_allreduce" else (normal(rows, columns),)


def expected(kind, world, call, shape):
    """Float32 result from all ranks' inputs, which are drawn again here: no communication."""
    import torch

    every = [draw(kind, rank, call, shape) for rank in range(world)]
    if kind == "allgather":
        return torch.stack([tensor for (tensor,) in every])
    return sum(left.float() @ right.float() for left, right in every)


def compare_shape(rank, world, kind, solution, shape):
    import torch
    import torch.distributed as dist

    worst = 0.0
    for call in range(6):  # one at a time, every second one with a late rank, in memory that held something else
        inputs = draw(kind, rank, call, shape)
        torch.cuda.synchronize()
        dist.barrier()
        if call % 2:
            torch.cuda._sleep(20_000_000 if rank == call % world else 1)
        worst = max(worst, error_of(solution(*inputs), expected(kind, world, call, shape)))
    many = 24 if shape[0] < 8192 else 6
    queued = [draw(kind, rank, 100 + call, shape) for call in range(many)]
    torch.cuda.synchronize()
    outputs = []
    for call, inputs in enumerate(queued):  # without a barrier between: slots are used again while peers still read
        if call % 5 == rank:
            torch.cuda._sleep(3_000_000)
        outputs.append(solution(*inputs))
    for call, output in enumerate(outputs):
        worst = max(worst, error_of(output, expected(kind, world, 100 + call, shape)))
    return worst


def error_of(output, truth):
    import torch

    if output.shape != truth.shape:
        return float("inf")
    error = (output.float() - truth.float()).abs().max() / truth.float().square().mean().sqrt()
    return float(torch.nan_to_num(error, nan=float("inf")))


def time_shape(rank, world, kind, solution, shape):
    """Median microseconds of the submission and of the NCCL reference, the slowest rank of each call."""
    return {
        "submission": timed(rank, kind, solution, shape),
        "reference": timed(rank, kind, reference(kind, world), shape),
    }


def reference(kind, world):
    import torch
    import torch.distributed as dist

    def gather(tensor):
        out = torch.empty((world, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
        dist.all_gather_into_tensor(out, tensor)
        return out

    def reduce(left, right):
        out = left @ right
        dist.all_reduce(out)
        return out

    return gather if kind == "allgather" else reduce


def timed(rank, kind, program, shape, calls=30):
    import torch
    import torch.distributed as dist

    sets = [draw(kind, rank, 200 + turn, shape) for turn in range(3)]
    times = []
    for call in range(5 + calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        dist.barrier()
        torch.cuda.synchronize()
        start.record()
        program(*sets[call % 3])
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000)
    slowest = torch.tensor(times[5:], device="cuda")
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return statistics.median(slowest.tolist())


JOBS = {"once": once, "compare": compare, "measure": measure}


# --- reports --------------------------------------------------------------------------------------------------------


def report_right(name, group):
    found = [note.get("found") for note in group["notes"]]
    if group["timed_out"] or not all(found):
        return complain(name, group)
    ok = True
    for shape in found[0]["errors"]:
        worst = max(rank["errors"][shape] for rank in found)
        limit = TOLERANCE if "gemm" in name else 0.0
        ok &= worst <= limit
        timing = ""
        if times := found[0]["times"].get(shape):
            ours, reference_us = times["submission"], times["reference"]
            timing = f"{ours:9.1f} us, reference {reference_us:9.1f} us, {reference_us / ours:.2f} x"
        print(f"{mark(worst <= limit)} {name} {shape}: max error {worst:.4f} rms {timing}")
    print(f"     {name} took {group['seconds']:.1f} s")
    return ok


def report_wrong(group):
    found = [note.get("found") for note in group["notes"]]
    if not all(found):
        return complain("gpu_gemm_allreduce_wrong", group)
    least = min(min(rank.values()) for rank in found)
    right = least > 10 * TOLERANCE
    print(f"{mark(right)} gpu_gemm_allreduce_wrong: least error {least:.3f} rms, {group['seconds']:.1f} s")
    return right


def report_illegal(group):
    errors = [note.get("error", "") for note in group["notes"]]
    right = any("illegal memory access" in error for error in errors)
    print(f"{mark(right)} gpu_allgather_illegal: exits {group['exits']}, {group['seconds']:.1f} s")
    return right or complain("gpu_allgather_illegal", group)


def report_hanging(group):
    right = group["timed_out"] and not any(group["notes"])
    print(f"{mark(right)} gpu_allgather_hanging: exits {group['exits']}, killed after {group['seconds']:.1f} s")
    return right or complain("gpu_allgather_hanging", group)


def report_leftovers(before):
    """Whether, within 30 s, no compute process is left and memory is back within 64 MiB of where it was."""
    deadline = time.monotonic() + 30
    started = time.monotonic()
    while True:
        processes, now = compute_processes(), memory_used()
        clean = not processes and all(after - used <= 64 for used, after in zip(before, now, strict=True))
        if clean or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    waited = time.monotonic() - started
    print(f"{mark(clean)} left over after {waited:.1f} s: processes {processes}, MiB used {now}, before {before}")
    return clean


def complain(name, group):
    print(f"FAIL {name}: exits {group['exits']}, timed out {group['timed_out']}, {group['seconds']:.1f} s")
    for rank, note in enumerate(group["notes"]):
        print(f"  rank {rank}: {str(note)[-2500:]}")
    return False


def mark(right):
    return "ok  " if right else "FAIL"


def memory_used():
    return [int(line) for line in smi("--query-gpu=memory.used").splitlines()]


def compute_processes():
    return [line for line in smi("--query-compute-apps=pid").splitlines() if line.strip().isdigit()]


def smi(query):
    said = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
    )
    return said.stdout


if __name__ == "__main__":
    sys.exit(main())
