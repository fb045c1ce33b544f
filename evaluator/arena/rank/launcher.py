"""The judge's first process inside the sandbox: imports torch once, forks the ranks, and reports how each one ended.

It forks on the host's command: importing uses one processor and no GPU, and may run while others are timed.
Run as `python -I launcher.py '<json>'`; the JSON names the ranks' descriptors. Nothing of a submission runs here.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

_PR_SET_DUMPABLE = 4

_COMMON = ("world_size", "device", "gpus", "process_group", "source", "store", "busy_poll_s")


def main() -> None:
    """Start every rank of the worker group described on the command line and wait for them all."""
    settings = json.loads(sys.argv[1])
    if settings["cores"]:
        # The last core of those that the present ranks may use, which keep to their own threads.
        os.sched_setaffinity(0, settings["cores"][-1][-2:])
    sys.path.insert(0, str(Path(__file__).parents[3]))
    sys.path.append(settings["compat"])
    import torch  # noqa: PLC0415 - once, before the fork, for all ranks
    import torch.distributed  # noqa: F401, PLC0415

    import evaluator.arena.rank.shim  # noqa: F401, PLC0415
    from evaluator.arena.protocol import EXIT, EXIT_MAGIC  # noqa: PLC0415

    if settings["device"] == "cuda":
        _import_what_torch_imports_late()
        _wait_for_cleared_signals()
        from evaluator.arena.gate_kernels import compile_apart  # noqa: PLC0415

        compile_apart(settings["capability"])
    _limit(settings["limits"])
    _show_native_stacks_when_interrupted()
    # No process of the same user may read or write this process's memory; the ranks undo it for themselves.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)
    if not os.read(settings["exits"], 1):
        return  # the host has gone, or needs no ranks
    children = {_fork(rank, settings): rank["rank"] for rank in settings["ranks"]}
    # The kernel keeps from this process the signals of its ranks for which it has no handler. Libraries install some.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for rank in settings["ranks"]:
        for name in ("channel", "status_page", "log"):
            os.close(rank[name])
    while children:
        pid, status = os.wait()
        if pid in children:
            os.write(settings["exits"], EXIT.pack(EXIT_MAGIC, children.pop(pid), status))


def _import_what_torch_imports_late() -> None:
    """Import now what the first watched operator and the first symmetric memory would import in the middle of a call.

    1.5 and 1.1 s on a node of H200 (21 November 2026, torch 2.11.0), while every GPU of the evaluation waits.
    """
    import torch  # noqa: PLC0415
    import torch.distributed._symmetric_memory  # noqa: PLC0415

    from evaluator.arena.rank.collective_count import CollectiveCount  # noqa: PLC0415

    with CollectiveCount(is_wanted=True):
        torch.ones(1)
    # The driver's bindings, without a call to the driver.
    from cuda.bindings import driver, nvrtc  # noqa: F401, PLC0415


def _wait_for_cleared_signals() -> None:
    """Have torch clear the signals of a new symmetric buffer before it returns it, so before a peer can write them.

    torch 2.11 only queues that, and a peer's signal that comes first is lost: then both ranks wait forever. Newer
    versions of torch wait as well. Without the gate the stream is empty, and clearing is over in microseconds.
    """
    import torch  # noqa: PLC0415
    from torch._C._distributed_c10d import _SymmetricMemory  # noqa: PLC0415

    allocate = _SymmetricMemory.empty_strided_p2p

    def allocate_and_wait(*arguments: Any, **named: Any) -> torch.Tensor:
        buffer = allocate(*arguments, **named)
        torch.cuda.current_stream(buffer.device).synchronize()
        return buffer

    _SymmetricMemory.empty_strided_p2p = staticmethod(allocate_and_wait)  # type: ignore[method-assign]


def _limit(limits: dict[str, int]) -> None:
    """Lower this process's limits for good; the ranks inherit them and cannot raise them again."""
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
    }
    if limits["data_bytes"]:
        wanted[resource.RLIMIT_DATA] = limits["data_bytes"]
    for kind, value in wanted.items():
        ceiling = resource.getrlimit(kind)[1]
        lowered = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(kind, (lowered, lowered))
    # Where memory runs out, the kernel should end a rank and nothing else. Not every kernel offers this.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _show_native_stacks_when_interrupted() -> None:
    """Let the ranks print the native stacks of all their threads on SIGINT, and end: the host's last request.

    Not on the signals of a crash: printing allocates, and would hang with a corrupted heap.
    """
    import torch  # noqa: PLC0415

    torch._C._set_print_stack_traces_on_fatal_signal(True)  # noqa: SLF001 - torch has no public name for it
    for number in (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV):
        signal.signal(number, signal.SIG_DFL)


def _fork(rank: dict[str, int], settings: dict[str, Any]) -> int:
    """Fork one rank. No thread and no CUDA context exists yet, so the child is whole."""
    from evaluator.arena.protocol import SHIM_FAILED  # noqa: PLC0415

    pid = os.fork()
    if pid:
        return pid
    code = SHIM_FAILED
    try:
        _become(rank, settings)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except Exception:  # noqa: BLE001 - the host reads any error in this rank's output
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def _become(rank: dict[str, int], settings: dict[str, Any]) -> None:
    """Keep this rank's own descriptors, set what torch.distributed programs expect, and serve."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1)
    os.dup2(rank["log"], 1)
    os.dup2(rank["log"], 2)
    own = {rank[name] for name in ("channel", "status_page", "log", "barrier", "clock")}
    for other in settings["ranks"]:
        for name in ("channel", "status_page", "log"):
            if other[name] not in own:
                os.close(other[name])
    os.close(settings["exits"])
    number, size = rank["rank"], settings["world_size"]
    os.environ.update(RANK=str(number), WORLD_SIZE=str(size))
    # Programs choose their GPU by the local rank: where all ranks share one, each is the only rank of its host.
    has_own = settings["device"] != "cuda" or settings["gpus"] >= size
    os.environ.update(LOCAL_RANK=str(number if has_own else 0), LOCAL_WORLD_SIZE=str(size if has_own else 1))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    import torch  # noqa: PLC0415

    from evaluator.arena.protocol import CHANNEL_LOST  # noqa: PLC0415
    from evaluator.arena.rank.shim import ChannelLost, RankSetup, run_rank  # noqa: PLC0415

    torch.set_num_threads(settings["threads"])
    if settings["cores"]:
        os.sched_setaffinity(0, settings["cores"][rank["rank"]])
    given: dict[str, Any] = {**rank, **{name: settings[name] for name in _COMMON}}
    try:
        run_rank(RankSetup(**given))
    except ChannelLost:
        os._exit(CHANNEL_LOST)


if __name__ == "__main__":
    main()
