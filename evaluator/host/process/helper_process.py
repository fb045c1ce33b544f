"""Work on untrusted bytes that may take long or much memory, done in a child process that can be ended.

The code there is ours, the data is not. Meanwhile this process continues and sends the heartbeats of all slots.
"""

import contextlib
import json
import os
import resource
import selectors
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from evaluator.errors import EvaluatorError, NodeTrouble
from evaluator.host.process.spawner import Spawner

_LENGTH = struct.Struct("<IQ")
_ROOT = Path(__file__).parents[3]
_READY = b"r"
_LONGEST_ANSWER = 64 * 1024**2
_PR_SET_PDEATHSIG = 1
_POLL_S = 0.2
"""How often a caller is asked whether the work is still wanted."""


class HelperLimitExceeded(Exception):
    """The work exceeded its time or memory; the text names the limit."""


class HelperCancelled(Exception):
    """The work is not wanted any more."""


class HelperProcess:
    """A child process that makes one function call at a time; started when first needed, replaced when ended.

    Args:
        spawner: starts the child, which ends with this process.
        memory_bytes: the child's address space.
        start_s: how long it may take to start.
    """

    def __init__(self, spawner: Spawner, *, memory_bytes: int = 4 * 1024**3, start_s: float = 60.0) -> None:
        self._spawner = spawner
        self._start_s = start_s
        self._memory_bytes = memory_bytes
        self._child: subprocess.Popen[bytes] | None = None
        self._to_child = self._from_child = -1

    def call(self, function: str, text: str, *, seconds: float, cancelled: Callable[[], bool] = lambda: False) -> str:
        """What `function`, named as `module:name`, returns for `text`.

        `cancelled` is polled; once true, the child ends.

        Raises:
            HelperCancelled: `cancelled()` became true.
            HelperLimitExceeded: it took longer than `seconds`, or more memory than the child may have.
            EvaluatorError: it raised.
            NodeTrouble: the child does not start.
        """
        try:
            if self._child is None or self._child.poll() is not None:
                self._start(cancelled)
            return self._answer(function, text, seconds=seconds, cancelled=cancelled)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        os.close(self._to_child)
        os.close(self._from_child)

    def _start(self, cancelled: Callable[[], bool]) -> None:
        self.close()
        reading, self._to_child = os.pipe()
        self._from_child, writing = os.pipe()
        os.set_blocking(self._to_child, False)
        try:
            self._child = self._spawner.start(
                [sys.executable, "-m", __name__, str(reading), str(writing), str(self._memory_bytes)],
                descriptors=[reading, writing],
                environment={name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ},
                error_output=subprocess.DEVNULL,
                directory=str(_ROOT),
            )
        except OSError as error:
            os.close(self._to_child)
            os.close(self._from_child)
            raise NodeTrouble(f"the helper process cannot be started: {error}") from error
        finally:
            os.close(reading)
            os.close(writing)
        try:
            self._read(len(_READY), _Wait(time.monotonic() + self._start_s, cancelled))
        except (TimeoutError, EOFError) as error:
            # Else its first byte, when it comes, would be taken for the beginning of an answer.
            self.close()
            raise NodeTrouble("the helper process does not start") from error

    def _answer(self, function: str, text: str, *, seconds: float, cancelled: Callable[[], bool]) -> str:
        wait = _Wait(time.monotonic() + seconds, cancelled)
        try:
            self._write(_packed(0, json.dumps([function, text]).encode()), wait)
            kind, length = _LENGTH.unpack(self._read(_LENGTH.size, wait))
            if length > _LONGEST_ANSWER:
                raise HelperLimitExceeded(f"its answer has more than {_LONGEST_ANSWER:,} bytes")
            answer = self._read(length, wait).decode("utf-8", "replace")
        except TimeoutError as error:
            raise HelperLimitExceeded(f"it took longer than {seconds:g} s") from error
        except (EOFError, BrokenPipeError) as error:
            raise HelperLimitExceeded("the process that read it ended, or used too much memory") from error
        if kind == _RAN_OUT:
            raise HelperLimitExceeded(f"it took more than {self._memory_bytes:,} bytes of memory")
        if kind == _RAISED:
            raise EvaluatorError(answer)
        return answer

    def _write(self, data: bytes, wait: "_Wait") -> None:
        view = memoryview(data)
        while view:
            wait.until_ready(self._to_child, selectors.EVENT_WRITE)
            view = view[os.write(self._to_child, view[: 1 << 16]) :]

    def _read(self, size: int, wait: "_Wait") -> bytes:
        found = bytearray()
        while len(found) < size:
            wait.until_ready(self._from_child, selectors.EVENT_READ)
            chunk = os.read(self._from_child, min(1 << 20, size - len(found)))
            if not chunk:
                raise EOFError
            found += chunk
        return bytes(found)


_RETURNED, _RAISED, _RAN_OUT = range(3)


def _packed(kind: int, data: bytes) -> bytes:
    return _LENGTH.pack(kind, len(data)) + data


@dataclass(frozen=True)
class _Wait:
    """Until when the child is waited for (monotonic clock), and who says that nobody wants its answer any more."""

    deadline: float
    cancelled: Callable[[], bool]

    def until_ready(self, descriptor: int, event: int) -> None:
        """Return once the descriptor can be used; raises TimeoutError and HelperCancelled."""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, event)
            while True:
                if self.cancelled():
                    raise HelperCancelled("the reading was cancelled")
                left = self.deadline - time.monotonic()
                if selector.select(max(0.0, min(left, _POLL_S))):
                    return
                if left <= 0:
                    raise TimeoutError


def main() -> None:
    """The child's loop: one request after the other until the parent closes its end."""
    import ctypes  # noqa: PLC0415 - only in the child

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    reading, writing, memory_bytes = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    with os.fdopen(reading, "rb") as requests, os.fdopen(writing, "wb", buffering=0) as answers:
        answers.write(_READY)
        while head := requests.read(_LENGTH.size):
            function, text = json.loads(requests.read(_LENGTH.unpack(head)[1]))
            _serve(answers, function, text)


def _serve(answers: BinaryIO, function: str, text: str) -> None:
    module, _, name = function.partition(":")
    try:
        called: Callable[[str], str] = getattr(import_module(module), name)
        kind, answer = _RETURNED, called(text)
    except MemoryError:
        kind, answer = _RAN_OUT, ""
    except Exception as error:  # noqa: BLE001 - the parent raises it again, as an error of ours
        kind, answer = _RAISED, f"{function}: {type(error).__name__}: {error}"
    data = memoryview(_packed(kind, answer.encode("utf-8", "replace")))
    while data:
        data = data[answers.write(data) :]


if __name__ == "__main__":
    main()
