"""What torch's flight recorder knows of this rank's collectives, noted in its status page on a signal of the host.

The main thread of a rank that hangs is inside a library and runs no Python. So a thread that only waits for the signal
answers instead. Its answer is self-reported, for the diagnosis of hangs.
"""

import json
import mmap
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from torch._C import _distributed_c10d
from torch.distributed import distributed_c10d

from evaluator.arena import protocol

MOST = 6
"""How many unfinished collectives are noted, the oldest ones, with the last finished one."""

_DUMPS = [
    dump
    for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json")
    if (dump := getattr(_distributed_c10d, name, None)) is not None
]


class FlightNotes:
    """Writes the summary into the `page` of a rank's status page whenever the host sends `records.FLIGHT_SIGNAL`."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page
        self._since_ns = 0

    def start(self) -> None:
        """Begin to listen; to be called in the main thread.

        Blocking the signal for a thread to wait for it would not do: where a library lets signals through again, it
        ends the process. With a handler, whatever thread receives it wakes the one that answers.
        """
        self._heard, wakes = socket.socketpair()
        wakes.setblocking(False)
        self._wakes = wakes
        signal.signal(protocol.FLIGHT_SIGNAL, _nothing)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._answer, daemon=True).start()

    def call_begins(self) -> None:
        """Collectives from now on belong to a new call."""
        self._since_ns = time.time_ns()

    def _answer(self) -> None:
        while numbers := self._heard.recv(64):
            if protocol.FLIGHT_SIGNAL not in numbers:
                continue
            try:
                # A recorder that no process group uses answers without entries.
                entries = [entry for dump in _DUMPS for entry in json.loads(dump(True, False)).get("entries", [])]
                noted = summary(entries, ranks_of=_ranks_of(), since_ns=self._since_ns)
            except Exception as error:  # noqa: BLE001 - without the recorder the stacks must suffice
                noted = [{"error": str(error)[:200]}]
            raw = json.dumps(noted).encode()[: protocol.STATUS_STACK_START - protocol.STATUS_FLIGHT_START - 1] + b"\0"
            self._page[protocol.STATUS_FLIGHT_START : protocol.STATUS_FLIGHT_START + len(raw)] = raw


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """The signal handler: does nothing, because the waiting thread answers."""


def _ranks_of() -> dict[str, list[int]]:
    """The ranks of every process group by its name."""
    world = distributed_c10d._world  # noqa: SLF001 - torch has no public name for it
    return {
        group.group_name: sorted(ranks)
        for group, ranks in world.pg_group_ranks.items()
        if isinstance(group, distributed_c10d.ProcessGroup)
    }


def summary(
    entries: Sequence[Mapping[str, Any]], *, ranks_of: Mapping[str, list[int]], since_ns: int
) -> list[dict[str, Any]]:
    """The unfinished collectives, oldest first, then the last finished one, as the host's `Collective` has them.

    `number` counts those of one group since `since_ns` (a time as `time.time_ns` gives it). It is 0 for what was begun
    before, and None where the recorder has forgotten how many there were.
    """
    before: dict[tuple[str, bool], int | None] = {}
    pending: list[dict[str, Any]] = []
    last = None
    for entry in sorted(entries, key=lambda item: item["time_created_ns"]):
        group, is_pairwise = entry["process_group"][0], entry["is_p2p"]
        sequence = entry["p2p_seq_id" if is_pairwise else "collective_seq_id"]
        series, is_of_call = (group, is_pairwise), entry["time_created_ns"] >= since_ns
        if is_of_call:
            start = before.setdefault(series, 0 if sequence == 1 else None)
        else:
            start = before[series] = sequence
        noted = {
            "operation": entry["profiling_name"].rpartition(":")[2][:64],
            "ranks": ranks_of.get(group, []),
            "number": None if start is None else sequence - start,
            "sequence": sequence,
            "tensors": _tensors(entry),
            "is_done": entry["retired"] or entry["state"] == "completed",
        }
        if noted["is_done"]:
            last = noted
        elif len(pending) < MOST:
            pending.append(noted)
    return pending + ([last] if last is not None else [])


def _tensors(entry: Mapping[str, Any]) -> str:
    """What went in, as `float[4, 8]`; of several tensors the first."""
    if not entry["input_sizes"]:
        return ""
    name = entry["input_dtypes"][0].lower() if entry["input_dtypes"] else ""
    more = f" and {len(entry['input_sizes']) - 1} more" if len(entry["input_sizes"]) > 1 else ""
    return f"{name}{entry['input_sizes'][0]}{more}"[:80]
