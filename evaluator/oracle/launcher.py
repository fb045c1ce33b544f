"""Start the oracle ranks: import torch and the problems once, fork one process per rank, wait for them.

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
    """Fork every oracle rank described on the command line; end when the first one ends."""
    settings = json.loads(sys.argv[1])
    _die_with_parent()
    import evaluator.oracle.rank  # noqa: F401, PLC0415 - torch, once, before the fork

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


def _fork(rank: dict[str, int], settings: dict[str, Any]) -> int:
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


def _become(rank: dict[str, int], settings: dict[str, Any]) -> None:
    _die_with_parent()
    for other in settings["ranks"]:
        if other["channel"] != rank["channel"]:
            os.close(other["channel"])
    import torch  # noqa: PLC0415

    from evaluator.oracle.rank import OracleRank, Place  # noqa: PLC0415

    torch.set_num_threads(settings["threads"])
    if settings["cores"]:
        os.sched_setaffinity(0, settings["cores"][rank["rank"]])
    common = ("world_size", "device", "process_group", "store", "barrier", "clock", "attentive_s")
    place = Place(rank=rank["rank"], channel=rank["channel"], **{name: settings[name] for name in common})
    OracleRank(place).serve()


if __name__ == "__main__":
    main()
