"""One builder process: starts it confined, receives its results within limits, and ends it."""

import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evaluator.errors import EvaluatorError, LimitExceeded, NodeTrouble
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.process.logs import clean

_FRAME = struct.Struct("<4sIQ")
_MODULE, _KERNEL = r"[0-9a-f]{32}/[A-Za-z_]\w{0,127}\.so", r"triton/[A-Z2-7]{52}/[A-Za-z_][\w.-]{0,191}"
_ARTEFACT = re.compile(rf"(?:{_MODULE}|{_KERNEL})\Z", re.ASCII)
_RESULT = "result.json"
_BEGAN = _FRAME.pack(b"PKBf", 5, 0) + b"began"
"""The first frame. The program sends it before it reads anything of the submission."""

_SHOWN_BYTES = 2000
_CHUNK = 1 << 20
_END_S = 30.0


@dataclass(frozen=True, kw_only=True)
class BuildLimits:
    """The limits of one build.

    Attributes:
        seconds: wall time.
        memory_bytes: address space of each process.
        scratch_bytes: its temporary files, in all and each.
        processes, cores: how many it may use.
        files: how many descriptors each process may have open.
        processors: the only ones that it may run on, by number; empty for the last `cores` of this process's.
        sent_bytes, sent_files, result_bytes: limits of what it sends: bytes, modules, its result.
        said_bytes: how much of its output is kept.
    """

    seconds: float = 300.0
    memory_bytes: int = 16 * 1024**3
    scratch_bytes: int = 2 * 1024**3
    processes: int = 512
    files: int = 8192
    cores: int = 4
    processors: tuple[int, ...] = ()
    sent_bytes: int = 256 * 1024**2
    sent_files: int = 256
    result_bytes: int = 8 * 1024**2
    said_bytes: int = 64 * 1024


@dataclass(kw_only=True)
class Sent:
    """What came out of a builder: modules by relative path, its result, and the head of what it printed."""

    artefacts: dict[str, bytes] = field(default_factory=dict)
    result: bytes | None = None
    said: str = ""

    @property
    def has_ended_well(self) -> bool:
        """Whether the builder came to its end: the result is what it sends last."""
        return self.result is not None


def limited(command: Sequence[str], limits: BuildLimits, *, are_counted: bool) -> list[str]:
    """`command` under resource limits, on at most `limits.cores` of this process's cores.

    Where `are_counted`, a control group limits the number of processes. The kernel's other limit counts all processes
    of a user: there the processes of one build would leave none to the builds beside it.

    Raises:
        NodeTrouble: util-linux (prlimit, taskset) is not installed.
    """
    prlimit, taskset = shutil.which("prlimit"), shutil.which("taskset")
    if prlimit is None or taskset is None:
        raise NodeTrouble("the builder needs prlimit and taskset (util-linux) on this node")
    cores = limits.processors or sorted(os.sched_getaffinity(0))[-limits.cores :]
    return [
        *(taskset, "--cpu-list", ",".join(map(str, cores))),
        *(prlimit, "--core=0", f"--as={limits.memory_bytes}", f"--fsize={limits.scratch_bytes}"),
        *(f"--nofile={limits.files}", f"--cpu={int(limits.seconds) * limits.cores}"),
        *([] if are_counted else [f"--nproc={limits.processes}"]),
        *command,
    ]


def run(
    line_for: Callable[[int], Sequence[str]],
    *,
    environment: Mapping[str, str],
    limits: BuildLimits,
    deadlines: Deadlines,
    inherited: Sequence[int] = (),
) -> Sent:
    """Start a builder and receive what it sends.

    Args:
        line_for: gives the command line for the number of the descriptor to which the process writes frames.
        environment: all variables of the process.
        inherited: further descriptors for the process.
        limits: the process's session is killed when it has sent everything, sent too much, or taken too long.
        deadlines: of the evaluation that waits for this build.

    Raises:
        Cancelled: nobody wants the build any more.
        LimitExceeded: time, size or number of files.
        EvaluatorError: the process could not be started, or does not end.
        NodeTrouble: it ended before it had read anything of the submission, as where its sandbox does not start.
    """
    reading, output = os.pipe()
    with os.fdopen(reading, "rb", buffering=0):
        process = _started(line_for, output, environment=environment, inherited=inherited)
        try:
            raw, said = _drain(process, reading, limits, deadlines)
        finally:
            _end(process, deadlines)
    if not raw.startswith(_BEGAN):
        raise NodeTrouble(f"the builder ended before it began: {clean(said[:_SHOWN_BYTES].decode(errors='replace'))}")
    sent = _parse(raw, limits, at=len(_BEGAN))
    if len(sent.result or b"") > limits.result_bytes:
        raise LimitExceeded(f"the result of the build exceeds {limits.result_bytes:,} bytes")
    sent.said = said.decode(errors="replace")
    return sent


def _started(
    line_for: Callable[[int], Sequence[str]],
    output: int,
    *,
    environment: Mapping[str, str],
    inherited: Sequence[int],
) -> subprocess.Popen[bytes]:
    """The process that writes to `output`, which is closed here; raises EvaluatorError."""
    try:
        return subprocess.Popen(  # noqa: S603 - our command, no shell
            list(line_for(output)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(output, *inherited),
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise EvaluatorError(f"the builder could not be started: {error}") from error
    finally:
        os.close(output)


def _drain(
    process: subprocess.Popen[bytes],
    reading: int,
    limits: BuildLimits,
    deadlines: Deadlines,
) -> tuple[bytes, bytes]:
    """Read frames and output to their ends; only the head of the output is kept."""
    assert process.stdout is not None
    seconds = deadlines.step(limits.seconds)
    deadline = time.monotonic() + seconds
    raw, said = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ, raw)
        selector.register(process.stdout.fileno(), selectors.EVENT_READ, said)
        while selector.get_map():
            if time.monotonic() > deadline:
                raise LimitExceeded(f"the build took longer than {seconds:.3g} s")
            deadlines.refuse_cancelled("the build")
            for key, _ in selector.select(timeout=0.2):
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    selector.unregister(key.fd)
                elif key.data is raw:
                    raw += chunk
                else:
                    said += chunk[: limits.said_bytes - len(said)]
            if len(raw) > limits.sent_bytes:
                raise LimitExceeded(f"the build's results exceed {limits.sent_bytes:,} bytes")
    return bytes(raw), bytes(said)


def _end(process: subprocess.Popen[bytes], deadlines: Deadlines) -> None:
    """Kill the builder's session; inside bubblewrap its whole process namespace goes with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    seconds = deadlines.killing(_END_S)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise EvaluatorError(f"the builder still runs {seconds:.3g} s after it was killed") from error
    if process.stdout is not None:
        process.stdout.close()


def _parse(raw: bytes, limits: BuildLimits, *, at: int = 0) -> Sent:
    """The files in the frames from byte `at` on, without truncated ones and those with names of another form.

    Raises:
        LimitExceeded: there are too many frames. Each costs time, even an empty one.
    """
    sent = Sent()
    for number, (name, content) in enumerate(_frames(raw, at=at)):
        if number > limits.sent_files:
            raise LimitExceeded(f"the build sent more than {limits.sent_files} files")
        if name == _RESULT:
            sent.result = content
        elif _ARTEFACT.match(name):
            sent.artefacts[name] = content
    return sent


def _frames(raw: bytes, *, at: int) -> Iterator[tuple[str, bytes]]:
    while at + _FRAME.size <= len(raw):
        magic, name_bytes, content_bytes = _FRAME.unpack_from(raw, at)
        start = at + _FRAME.size
        end = start + name_bytes + content_bytes
        if magic != b"PKBf" or name_bytes > 256 or end > len(raw):
            return
        yield raw[start : start + name_bytes].decode(errors="replace"), raw[start + name_bytes : end]
        at = end


def inside(arguments: Mapping[str, object], *, program: str) -> list[str]:
    """Arguments of `python -I`: the program inside the sandbox and its settings as JSON."""
    return [program, json.dumps(arguments)]
