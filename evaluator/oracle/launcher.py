"""Starts the trusted ranks: imports torch and the problems once, forks one process per rank and role, waits for them.

It forks at the host's word: importing uses one processor and no GPU, and may run while others are timed.

Run as `python -m evaluator.oracle.launcher '<json>'` by the host.
"""

import ctypes
import json
import os
import signal
import sys
import traceback
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Fork every rank described on the command line; end when the first one ends."""
    settings = json.loads(sys.argv[1])
    _die_with_parent()
    allowed = os.sched_getaffinity(0)
    if settings["import_cores"]:
        # The last core of those that the present ranks may use, which keep to their own threads.
        os.sched_setaffinity(0, settings["import_cores"])
    import evaluator.oracle.oracle_rank  # noqa: PLC0415 - torch, once, before the fork
    import evaluator.oracle.reference_rank  # noqa: F401, PLC0415

    if settings["device"] == "cuda":
        from cuda.bindings import driver, nvrtc  # noqa: F401, PLC0415

        from evaluator.arena.gate_kernels import compile_apart  # noqa: PLC0415

        compile_apart(settings["capability"])
    if not os.read(settings["start"], 1):
        return  # the host has gone, or needs no ranks
    os.sched_setaffinity(0, allowed)
    children = [_fork(rank, settings) for rank in settings["ranks"]]
    for rank in settings["ranks"]:
        os.close(rank["channel"])
    ended, _status = os.wait()
    for pid in children:
        if pid != ended:
            os.kill(pid, signal.SIGKILL)


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, however it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _fork(rank: dict[str, Any], settings: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _become(rank, settings)
        code = 0
    except Exception:  # noqa: BLE001 - the host reads the oracle's standard error when a rank ends
        traceback.print_exc()
    finally:
        os._exit(code)


def _become(rank: dict[str, Any], settings: dict[str, Any]) -> None:
    _die_with_parent()
    for other in settings["ranks"]:
        if other["channel"] != rank["channel"]:
            os.close(other["channel"])
    import torch  # noqa: PLC0415

    from evaluator.oracle.oracle_rank import OracleRank  # noqa: PLC0415
    from evaluator.oracle.reference_rank import ReferenceRank  # noqa: PLC0415
    from evaluator.oracle.trusted_rank import TrustedRankSetup  # noqa: PLC0415

    torch.set_num_threads(rank["threads"])
    if rank["cores"]:
        os.sched_setaffinity(0, rank["cores"])
    own = ("rank", "channel", "store", "barrier", "clock")
    common = ("world_size", "device", "gpus", "process_group", "ends", "busy_poll_s")
    setup = TrustedRankSetup(**{name: rank[name] for name in own}, **{name: settings[name] for name in common})
    roles = {"oracle": OracleRank, "reference": ReferenceRank, "recorder": ReferenceRank}
    roles[rank["role"]](setup).serve()


if __name__ == "__main__":
    main()
