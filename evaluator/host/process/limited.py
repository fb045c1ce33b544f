"""Runs what reads strangers' bytes, within limits: each time in a process of its own that can be ended.

The programs are ours, the bytes are not: reading them may take long or much memory. Meanwhile this process continues
and sends the heartbeats of all slots.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from evaluator.errors import EvaluatorError, LimitExceeded, NodeFailure

if TYPE_CHECKING:  # a process that reads imports this module, and with `evaluator.host` it would import the whole judge
    from evaluator.host.process.deadlines import Deadlines

_ROOT = Path(__file__).parents[3]
_READY, _RETURNED, _RAISED, _RAN_OUT = b"r", b"=", b"!", b"m"
"""What a process that makes a call prints: that it has started, then how the call ended, with its result."""

_LONGEST_ANSWER = 64 * 1024**2
_PR_SET_PDEATHSIG = 1
_END_S = 30.0
_POLL_S = 0.2
"""How often a caller is asked whether the work is still wanted."""


def call(
    function: str,
    text: str,
    *,
    seconds: float,
    deadlines: "Deadlines",
    memory_bytes: int = 4 * 1024**3,
    start_s: float = 60.0,
) -> str:
    """What `function`, named as `module:name`, returns for `text`.

    Args:
        function: its name.
        text: what it reads.
        seconds: how long it may take once its process has started; less where its deadline comes sooner.
        deadlines: of the evaluation that waits for it.
        memory_bytes: the address space of its process.
        start_s: how long its process may take to start.

    Raises:
        Cancelled: nobody wants it any more.
        LimitExceeded: it took longer than `seconds`, more memory, or returned too much.
        EvaluatorError: it raised.
        NodeFailure: its process does not start.
    """
    seconds = deadlines.step(seconds)
    line = [sys.executable, "-P", __file__, function]
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    code, printed = run(
        line,
        given=json.dumps(text).encode(),
        environment=environment,
        seconds=seconds,
        start_s=start_s,
        output_bytes=_LONGEST_ANSWER,
        memory_bytes=memory_bytes,
        deadlines=deadlines,
    )
    if not printed:
        raise NodeFailure("a process that reads for the judge does not start")
    if code is None:
        raise LimitExceeded(f"it took longer than {seconds:g} s")
    if len(printed) >= _LONGEST_ANSWER:
        raise LimitExceeded(f"its answer has more than {_LONGEST_ANSWER:,} bytes")
    kind, answer = printed[1:2], printed[2:].decode("utf-8", "replace")
    if kind == _RAN_OUT:
        raise LimitExceeded(f"it took more than {memory_bytes:,} bytes of memory")
    if kind == _RAISED:
        raise EvaluatorError(answer)
    if code != 0 or kind != _RETURNED:
        raise LimitExceeded("the process that read it ended, or used too much memory")
    return answer


def run(
    line: Sequence[str],
    *,
    given: bytes = b"",
    environment: Mapping[str, str],
    seconds: float,
    start_s: float | None = None,
    output_bytes: int,
    memory_bytes: int,
    deadlines: "Deadlines",
) -> tuple[int | None, bytes]:
    """How a command ends, None where its time was up, and what it printed.

    Args:
        line: the command.
        given: its standard input.
        environment: all its variables.
        seconds: how long it may take; from its first byte where it has a time to start.
        start_s: how long until it prints its first byte; None where that does not matter.
        output_bytes: a longer output ends it.
        memory_bytes: the address space of each of its processes.
        deadlines: of the evaluation that waits for it.

    Raises:
        Cancelled: nobody wants it any more.
        EvaluatorError: it does not end.
        NodeFailure: it cannot be started, or not in time.
    """
    reading, output = os.memfd_create("given", os.MFD_CLOEXEC), os.memfd_create("output", os.MFD_CLOEXEC)
    with os.fdopen(reading, "w+b") as said, os.fdopen(output, "rb") as printed:
        said.write(given)
        said.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                ["prlimit", f"--fsize={output_bytes}", f"--as={memory_bytes}", "--core=0", *line],  # noqa: S607
                stdin=said,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            raise NodeFailure(f"a process that reads for the judge cannot be started: {error}") from error
        try:
            code = _code(process, output, seconds=seconds, start_s=start_s, deadlines=deadlines)
        finally:
            end_session(process, "a process that reads for the judge", seconds=deadlines.killing(_END_S))
        printed.seek(0)
        return code, printed.read(output_bytes)


def end_session(process: subprocess.Popen[bytes], what: str, *, seconds: float) -> None:
    """Kill a process with its whole session, as it may have started others, and return once it has ended.

    Raises:
        EvaluatorError: it does not end.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise EvaluatorError(f"{what} still runs {seconds:.3g} s after it was killed") from error


def _code(
    process: subprocess.Popen[bytes],
    output: int,
    *,
    seconds: float,
    start_s: float | None,
    deadlines: "Deadlines",
) -> int | None:
    deadline, has_started = time.monotonic() + (seconds if start_s is None else start_s), start_s is None
    poll, ended = select.poll(), os.pidfd_open(process.pid)
    poll.register(ended, select.POLLIN)
    try:
        while True:
            deadlines.refuse_cancelled("the reading")
            if not has_started and os.fstat(output).st_size:
                deadline, has_started = time.monotonic() + seconds, True
            left = deadline - time.monotonic()
            if poll.poll(1000 * max(0.0, min(left, _POLL_S))):
                return process.wait()
            if left <= 0 and not has_started:
                raise NodeFailure("a process that reads for the judge does not start in time")
            if left <= 0:
                return None
    finally:
        os.close(ended)


def main() -> None:
    """In the process: one call, with the text from standard input."""
    import ctypes  # noqa: PLC0415 - only here

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with os.fdopen(os.dup(1), "wb", buffering=0) as answers:
        os.dup2(2, 1)
        module, _, name = sys.argv[1].partition(":")
        called: Callable[[str], str] = getattr(import_module(module), name)
        text = json.load(sys.stdin)
        answers.write(_READY)
        kind, answer = _made(called, text)
        data = memoryview(kind + answer.encode("utf-8", "replace"))
        while data:
            data = data[answers.write(data) :]


def _made(called: Callable[[str], str], text: str) -> tuple[bytes, str]:
    try:
        return _RETURNED, called(text)
    except MemoryError:
        return _RAN_OUT, ""
    except Exception as error:  # noqa: BLE001 - the caller raises it again, as an error of ours
        return _RAISED, f"{sys.argv[1]}: {type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
