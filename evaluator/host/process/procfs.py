"""Reads /proc: which processes belong to a sandbox, and whether they still run."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from evaluator.errors import EvaluatorError

_PROC = Path("/proc")
_SHOWN, _LONGEST_PAUSE_S = 20, 0.1


def namespace_of(pid: int) -> str | None:
    """The identity of a process's PID namespace, or None where the process is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - paths are slow, and one pass reads hundreds
    except OSError:
        return None


def members_of_namespace(namespace: str) -> list[int]:
    """Every process that lives in the PID namespace `namespace`."""
    return [pid for pid in _pids() if namespace_of(pid) == namespace]


def members_with_variable(variable: bytes) -> list[int]:
    """Every process that was started with `NAME=value` (as bytes) in its environment."""
    return [pid for pid in _pids() if variable in _initial_environment(pid)]


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(_PROC) if entry.isdigit()]  # noqa: PTH208 - as above


def _initial_environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """`pid` and every process below it."""
    parents = {child: parent_of(child) for child in _pids()}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def cpu_ticks(pid: int, *, with_children: bool = False) -> int:
    """User and system time of a process, and of the children it has waited for, in clock ticks; 0 where it is gone."""
    try:
        return sum(map(int, _stat(pid)[11 : 15 if with_children else 13]))
    except OSError:
        return 0


def is_runnable(pid: int, *, beside_first: bool = False) -> bool:
    """Whether its first thread, or one beside it, runs or waits: on a busy machine a loop may get hardly any time."""
    try:
        threads = [each for each in (_PROC / f"{pid}/task").iterdir() if (each.name != str(pid)) is beside_first]
        return any(_stat(f"{pid}/task/{each.name}")[0] == b"R" for each in threads)
    except OSError:
        return False


def owned_by(user: int) -> list[int]:
    """Every process of the host user `user` that can still run; zombies may wait for a parent that never reaps them."""
    mark = f"\nUid:\t{user}\t"
    # A process has ended with all its threads: its first one may end before the others.
    return [
        pid
        for pid in _pids()
        if mark in (status := _status(pid)) and not ("\nState:\tZ" in status and "\nThreads:\t1\n" in status)
    ]


def _status(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return ""


def _stat(pid: int | str) -> list[bytes]:
    """The fields of a process's state after its name, which may be any bytes; raises OSError."""
    return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()


def parent_of(pid: int) -> int | None:
    """The parent of `pid`; None where the process is gone."""
    try:
        return int(_stat(pid)[1])
    except OSError:
        return None


def wait_until_gone(members: Callable[[], list[int]], *, patience_s: float, most_s: float) -> None:
    """Return once `members()` is empty.

    The kernel takes long to free the large mappings of many processes, so this waits as long as they become fewer.

    Raises:
        EvaluatorError: none has ended for `patience_s`, or some are left after `most_s`: the node is not clean.
    """
    start = progress_at = time.monotonic()
    fewest, pause_s = len(left := members()), 0.005
    while left:
        now = time.monotonic()
        if now - progress_at > patience_s or now - start > most_s:
            shown = ", ".join(map(str, left[:_SHOWN]))
            raise EvaluatorError(
                f"{len(left)} processes of an ended evaluation still exist after {now - start:.0f} s: {shown}"
            )
        time.sleep(pause_s)
        # Reading hundreds of processes takes processor time from the kernel that ends them.
        pause_s = min(_LONGEST_PAUSE_S, 1.5 * pause_s)
        if len(left := members()) < fewest:
            fewest, progress_at = len(left), time.monotonic()
