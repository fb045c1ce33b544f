"""A process beside a web process for work on strangers' texts; it has a budget, and is ended when that is spent.

A regular expression or a parser keeps the interpreter's lock until it returns, so that one request would stop all
others, and nothing in Python ends it. Here the kernel does: a timer of processor time kills the process at work.
"""

import hashlib
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 0.5
"""How long a caller waits for others: who waits keeps a thread for requests."""
MOST_KEPT_BYTES = 32 * 1024 * 1024
_PATIENCE = 3
"""By how many times its processor time a call may take longer, where the machine has other work."""
_MEMORY_BYTES = 1024 * 1024 * 1024


class Helper:
    """One process, started when it is first needed, that works for one caller at a time.

    Its results are kept, and also that a budget did not suffice: to ask again costs nothing.
    """

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._free = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._kept: OrderedDict[bytes, tuple[bytes, ...]] = OrderedDict()
        self._kept_bytes = 0

    def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """`work` of each item in order; the list ends early where the budget did, or where the helper stayed busy.

        `work` has to be a function of a module that needs no settings.
        """
        key = hashlib.sha256(repr((work.__module__, work.__qualname__, items)).encode("utf-8", "replace")).digest()
        found = self._kept.get(key)
        if found is None:
            if not self._free.acquire(timeout=WAIT_S):
                return []
            try:
                found = self._kept.get(key)
                if found is None:
                    found = self._ask(key, work, items)
            finally:
                self._free.release()
        return [pickle.loads(result) for result in found]  # noqa: S301 - our own code wrote it

    def _ask(self, key: bytes, work: Callable[[Item], Result], items: Sequence[Item]) -> tuple[bytes, ...]:
        found: list[bytes] = []
        deadline = time.monotonic() + _PATIENCE * self._seconds
        line = self._line or self._start()
        is_over = False
        try:
            line.send((work, items, self._seconds))
            with suppress(EOFError, OSError):  # the budget is spent, maybe in the middle of a result
                while line.poll(max(0.0, deadline - time.monotonic())):
                    if not (result := line.recv_bytes()):
                        is_over = True
                        break
                    found.append(result)
                else:  # the machine is busy: another time it may do
                    return tuple(found)
            self._keep(key, tuple(found))
        except BrokenPipeError:  # somebody ended the process while it had nothing to do
            return ()
        finally:
            if not is_over:
                self._end()
        return tuple(found)

    def _keep(self, key: bytes, found: tuple[bytes, ...]) -> None:
        self._kept[key] = found
        self._kept_bytes += sum(map(len, found))
        while self._kept_bytes > MOST_KEPT_BYTES or len(self._kept) > 10_000:
            _, dropped = self._kept.popitem(last=False)
            self._kept_bytes -= sum(map(len, dropped))

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this module
                [sys.executable, "-m", "portal.core.helper", str(theirs.fileno())],
                cwd=ROOT,
                env={"PATH": os.environ.get("PATH", "")},  # none of the site's secrets
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._line = Connection(ours.detach())
        return self._line

    def _end(self) -> None:
        if self._process is not None and self._line is not None:
            self._line.close()
            self._process.kill()
            self._process.wait()
        self._process = self._line = None


def serve(descriptor: int) -> None:
    """Work on what comes, until the other side closes the connection or a budget is spent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, MemoryError), Connection(descriptor) as line:
        while True:
            _answer(line, *line.recv())


def _answer(line: Connection, work: Callable[[Any], Any], items: Sequence[Any], seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)  # the signal ends this process, in the middle of anything
    for item in items:
        line.send_bytes(pickle.dumps(work(item)))
    signal.setitimer(signal.ITIMER_PROF, 0)
    line.send_bytes(b"")


if __name__ == "__main__":
    serve(int(sys.argv[1]))
