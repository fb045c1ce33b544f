# ruff: noqa: SLF001
# A table on standard output is what it is for; torch.cuda._sleep is the only way to delay a stream.
"""Try submissions on this machine's GPUs without the judge: right or wrong, how fast, and where the time goes.

    python -m tools.gpu.programs --world-size 4 --size base,large SLUG FILE BACKEND [SLUG FILE BACKEND ...]

Inputs and comparison are the judge's; sandbox, clock and verdicts are not. Times are by CUDA events (on CPU ranks by
the rank's own clock), which the judge uses only as a cross-check. Inputs change at the same addresses, ranks do not
synchronise between calls, and one rank is late. Times are medians of the slowest rank, reference and submission by
turns. Without CUDA the ranks use gloo on the processor, which tries this script only. With fewer GPUs than ranks,
ranks share them: outputs are right or wrong as ever, and times say nothing.
"""

import argparse
import ast
import ctypes
import importlib.util
import json
import mmap
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
from dataclasses import asdict, dataclass
from pathlib import Path

from evaluator.contract import Backend, Mode, SourceBundle, SourceFile
from evaluator.hardware import profiles
from evaluator.judging import source_rules
from problems import registry
from problems.spec.schema import SizeName

ROOT = Path(__file__).resolve().parents[2]
COMPAT = ROOT / "evaluator" / "arena" / "compat"
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
KEY = b"a key that no judge ever uses..."
BUILD_SECONDS = 300
QUEUED = 4
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, kw_only=True)
class Job:
    """One submission at one size."""

    slug: str
    file: str
    backend: str
    size: str
    calls: int
    trace: bool


def main():
    arguments = parse()
    os.environ |= NO_MULTICAST
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="gpu_try_"))
    os.environ.setdefault("PKB_EXTENSION_CACHE", str(folder / "extensions"))  # set it to keep builds between runs
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    triples = [arguments.jobs[start : start + 3] for start in range(0, len(arguments.jobs), 3)]
    try:
        check_sources(triples, world_size=arguments.world_size)
        build_ahead({file for _, file, _ in triples})
        jobs = [
            Job(slug=slug, file=file, backend=backend, size=size, calls=arguments.calls, trace=arguments.trace)
            for slug, file, backend in triples
            for size in arguments.size.split(",")
        ]
        failed = run_all(jobs, world_size=arguments.world_size, seconds=arguments.seconds, folder=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--size", default="base,large", help="names of sizes, with commas between")
    parser.add_argument("--calls", type=int, default=30, help="timed calls of each program")
    parser.add_argument("--seconds", type=float, default=60, help="limit for one submission at one size")
    parser.add_argument("--trace", action="store_true", help="list the kernels of one call on the first and last rank")
    parser.add_argument("jobs", nargs="+", metavar="SLUG FILE BACKEND")
    arguments = parser.parse_args()
    if len(arguments.jobs) % 3:
        parser.error(f"{len(arguments.jobs)} words are no triples of SLUG FILE BACKEND")
    return arguments


# --- before a GPU is used --------------------------------------------------------------------------------------------


def check_sources(triples, *, world_size):
    """Print what the source rules of a ranked judgement say against each submission."""
    profile = profiles.get(f"h200x{world_size}-nomc")
    for slug, file, backend in triples:
        bundle = SourceBundle(files=(SourceFile(path=SourceBundle.ENTRY, text=Path(file).read_text()),))
        for finding in source_rules.check_source(
            registry.get(slug), bundle, backend=Backend(backend), profile=profile, mode=Mode.RANKED
        ):
            print(f"FAIL {slug} {file}: {finding.verdict} {finding.message}", flush=True)


def build_ahead(files):
    """Build the extensions of submissions that have a function `extension`, all at once."""
    code = "import runpy, sys; sys.path.insert(0, sys.argv[1]); runpy.run_path(sys.argv[2])['extension']()"
    running = {
        file: subprocess.Popen(
            [sys.executable, "-c", code, str(COMPAT), file],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for file in files
        if any(
            isinstance(node, ast.FunctionDef) and node.name == "extension"
            for node in ast.parse(Path(file).read_text()).body
        )
    }
    started = time.monotonic()
    for file, process in running.items():
        try:
            said, _ = process.communicate(timeout=max(1, BUILD_SECONDS - (time.monotonic() - started)))
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        if process.returncode:
            print(f"FAIL building {file}:\n{said[-3000:]}", flush=True)
    if running:
        print(f"{len(running)} built in {time.monotonic() - started:.1f} s", flush=True)


# --- worker groups ----------------------------------------------------------------------------------------------------


def run_all(jobs, *, world_size, seconds, folder):
    """Run the jobs in one worker group; where one breaks it, the rest in a new one. Returns how many failed."""
    done = failed = 0
    while done < len(jobs):
        where = Path(tempfile.mkdtemp(prefix="group_", dir=folder))
        ranks = start(jobs[done:], world_size=world_size, where=where)
        try:
            for index, job in enumerate(jobs[done:]):
                limit = seconds + (30 if index == 0 else 0)
                notes, is_whole = wait_for(ranks, where=where, index=index, seconds=limit)
                failed += not report(job, notes, world_size=world_size)
                done += 1
                if not is_whole:
                    break
        finally:
            for process in ranks:
                process.join(timeout=10 if done == len(jobs) else 0)
                if process.is_alive():
                    process.kill()
            for process in ranks:
                process.join()
    return failed


def start(jobs, *, world_size, where):
    (where / "barrier").write_bytes(bytes(mmap.PAGESIZE))
    context = multiprocessing.get_context("spawn")
    ranks = [
        context.Process(
            target=rank_main, args=(rank, world_size, [asdict(job) for job in jobs], str(where)), daemon=True
        )
        for rank in range(world_size)
    ]
    for process in ranks:
        process.start()
    return ranks


def wait_for(ranks, *, where, index, seconds):
    """The notes of all ranks on a job, and whether the worker group lives on: no failure, no death, no time out."""
    paths = [where / f"{index}_{rank}.json" for rank in range(len(ranks))]
    deadline = time.monotonic() + seconds
    while not all(path.exists() for path in paths) and time.monotonic() < deadline:
        if any(process.exitcode for process in ranks):
            time.sleep(1)  # peers may still say what they met
            break
        time.sleep(0.02)
    notes = [json.loads(path.read_text()) if path.exists() else None for path in paths]
    return notes, all(note is not None and "error" not in note for note in notes)


def rank_main(rank, world_size, jobs, where):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    code = index = 0
    try:
        member = Member(rank, world_size, Path(where))
        for index, job in enumerate(jobs):
            write_note(Path(where) / f"{index}_{rank}.json", member.do(Job(**job)))
    except BaseException:  # noqa: BLE001 - whatever it is, the parent prints it
        write_note(Path(where) / f"{index}_{rank}.json", {"error": traceback.format_exc()[-3000:]})
        code = 1
    os._exit(code)  # destructors of a broken context may hang


def write_note(path, content):
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content))
    partial.rename(path)


# --- what a rank does ------------------------------------------------------------------------------------------------


class Member:
    """One rank: its device and process group. Ranks beyond the number of GPUs share them."""

    def __init__(self, rank, world_size, where):
        import torch
        import torch.distributed as dist

        from evaluator.arena.clock import Barrier

        sys.path.insert(0, str(COMPAT))
        self.rank, self.world_size = rank, world_size
        gpus = torch.cuda.device_count()
        self.device = torch.device("cuda", rank % gpus) if gpus else torch.device("cpu")
        if gpus:
            torch.cuda.set_device(self.device)
        if 0 < gpus < world_size:
            # NCCL refuses two ranks of one host on a GPU. As if each had a host of its own, they speak over a socket.
            os.environ |= {"NCCL_HOSTID": f"rank-{rank}", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
        dist.init_process_group(
            "nccl" if gpus else "gloo",
            init_method=f"file://{where}/store",
            rank=rank,
            world_size=world_size,
            device_id=self.device if gpus else None,
        )
        with (where / "barrier").open("r+b") as page:
            self.barrier = Barrier(page.fileno(), rank=rank, world_size=world_size)
        self.solutions = {}

    def solution(self, file):
        """The submission's function; imported once, so that what it keeps serves all sizes, as in the judge."""
        if file not in self.solutions:
            spec = importlib.util.spec_from_file_location(f"solution_{Path(file).stem}", file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self.solutions[file] = module.solution
        return self.solutions[file]

    def do(self, job):
        import torch

        from problems.harness import implementation

        with torch.no_grad():
            kind = implementation.load(job.slug)
            runner = Runner(self, kind, job)
            found = {"error_units": runner.compare()}
            found |= runner.measure(job.calls)
            if job.trace and self.rank in (0, self.world_size - 1):
                found["trace"] = runner.trace()
            elif job.trace:
                runner.call_once()
            return found


class Runner:
    """One submission at one size on this rank."""

    def __init__(self, member, kind, job):
        import torch

        self.member, self.kind, self.solution = member, kind, member.solution(job.file)
        self.dims = kind.problem.dims(SizeName(job.size), member.world_size)
        self.dtype = torch.bfloat16
        self.held = self.draw(0)

    def call(self, index):
        from problems.inputs.values import Call

        return Call(
            key=KEY,
            index=index,
            rank=self.member.rank,
            world_size=self.member.world_size,
            dims=self.dims,
            dtype=self.dtype,
            device=self.member.device,
        )

    def draw(self, index):
        return self.kind.make_inputs(self.call(index))

    def refill(self, index):
        """The inputs of call `index` in the tensors of the call before, where shapes allow it."""
        self.held = {
            name: refilled(old, new)
            for (name, old), new in zip(self.held.items(), self.draw(index).values(), strict=True)
        }

    def compare(self):
        """The largest error in units of the tolerance and the largest rms over calls of several kinds."""
        worst, rms, notes = 0.0, 0.0, []
        for index in range(5):  # one at a time, inputs changing in place, every second one with a late rank
            self.refill(index)
            self.line_up(late=index % 2 and self.member.rank == index % self.member.world_size)
            outputs = self.kind.run_with(self.solution, self.held)
            worst, rms = self.judge(index, outputs, worst, rms, notes)
            if any(
                not same(value, fresh)
                for value, fresh in zip(self.held.values(), self.draw(index).values(), strict=True)
            ):
                notes.append(f"call {index} changed its arguments")
        queued = [self.draw(100 + index) for index in range(QUEUED)]
        self.line_up(late=False)
        outputs = []
        for index, arguments in enumerate(queued):  # no meeting between: a rank may be a call ahead of its peers
            self.delay(index % self.member.world_size == self.member.rank)
            outputs.append(self.kind.run_with(self.solution, arguments))
        for index, output in enumerate(outputs):
            worst, rms = self.judge(100 + index, output, worst, rms, notes)
        return {"worst": worst, "rms": rms, "notes": notes[:4]}

    def judge(self, index, outputs, worst, rms, notes):
        call = self.call(index)
        comparisons = self.kind.check(call, outputs, self.kind.expected(call))
        for found in comparisons:
            worst, rms = max(worst, found.max_error), max(rms, found.rms_error)
            if not found.passed:
                notes.append(
                    f"call {index}: {found.wrong_elements} of {found.elements} wrong, first at {found.first_wrong}, "
                    f"{found.nonfinite} not finite, rms {found.rms_error:.4f}"
                )
        return worst, rms

    def line_up(self, *, late):
        synchronize(self.member.device)
        self.member.barrier.wait()
        self.delay(late)

    def delay(self, is_late):
        import torch

        if is_late and self.member.device.type == "cuda":
            torch.cuda._sleep(5_000_000)

    def measure(self, calls):
        """Microseconds of every call on this rank, by its own clock, reference and submission by turns."""
        from problems.harness.implementation import _materialise

        times = {"reference": [], "submission": []}
        sets = [list(map(_materialise, self.draw(200 + turn).values())) for turn in range(2)]
        for call in range(calls + 4):
            for name, program in (("reference", self.kind.solution), ("submission", self.solution)):
                self.line_up(late=False)
                times[name].append(timed_us(program, sets[call % 2], self.member.device))
        return {name: found[4:] for name, found in times.items()}

    def call_once(self):
        self.line_up(late=False)
        self.kind.run_with(self.solution, self.held)
        synchronize(self.member.device)

    def trace(self):
        """Kernels of one call with their start and length in microseconds."""
        import torch

        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            self.call_once()
        events = sorted(
            (event.time_range.start, event.time_range.elapsed_us(), event.name)
            for event in profile.events()
            if str(event.device_type).endswith("CUDA")
        )
        first = events[0][0] if events else 0
        return [f"{begin - first:9.1f} +{length:8.1f} {name[:100]}" for begin, length, name in events[:60]]


def timed_us(program, arguments, device):
    """Microseconds of one call, in stream order on a GPU."""
    import torch

    if device.type != "cuda":
        start = time.perf_counter_ns()
        program(*arguments)
        return (time.perf_counter_ns() - start) / 1000
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    program(*arguments)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1000


def synchronize(device):
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()


def refilled(old, new):
    """`new` in the memory of `old` where both are tensors of one shape, alone or in modules and lists."""
    import torch

    from problems.inputs.modules import Module

    if isinstance(new, torch.Tensor) and not new.is_sparse and isinstance(old, torch.Tensor) and old.shape == new.shape:
        return old.copy_(new)
    if isinstance(new, Module):
        return Module(
            kind=new.kind, tensors={name: refilled(old.tensors[name], new.tensors[name]) for name in new.tensors}
        )
    if isinstance(new, list) and isinstance(old, list) and len(old) == len(new):
        return [refilled(*pair) for pair in zip(old, new, strict=True)]
    return new


def same(left, right):
    from problems.harness.trials import _same

    return _same(left, right)


# --- reports ---------------------------------------------------------------------------------------------------------


def report(job, notes, *, world_size):
    """Print a job's line; whether it was right."""
    head = f"{job.slug} {Path(job.file).stem} {job.size} x{world_size}"
    if any(note is None or "error" in note for note in notes):
        print(f"FAIL {head}", flush=True)
        for rank, note in enumerate(notes):
            print(f"  rank {rank}: {'no answer' if note is None else note.get('error', 'ended')[-1800:]}", flush=True)
        return False
    errors = [note["error_units"] for note in notes]
    complaints = [f"rank {rank}: {text}" for rank, found in enumerate(errors) for text in found["notes"]]
    medians = {
        name: statistics.median(map(max, zip(*(note[name] for note in notes), strict=True)))
        for name in ("reference", "submission")
    }
    print(
        f"{'FAIL' if complaints else 'ok  '} {head}: error {max(found['worst'] for found in errors):.3f} of the bound, "
        f"rms {max(found['rms'] for found in errors):.5f}; reference {medians['reference']:.1f} us, submission "
        f"{medians['submission']:.1f} us, {medians['reference'] / medians['submission']:.3f} x",
        flush=True,
    )
    per_rank = {name: [round(statistics.median(note[name]), 1) for note in notes] for name in medians}
    print(f"     medians by rank {per_rank}", flush=True)
    for line in complaints[:8]:
        print(f"     {line}", flush=True)
    for rank, note in enumerate(notes):
        for line in note.get("trace", ()):
            print(f"     rank {rank} {line}", flush=True)
    return not complaints


if __name__ == "__main__":
    sys.exit(main())
