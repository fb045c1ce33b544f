"""Disassembles built extensions, in a sandbox because the modules are untrusted."""

import contextlib
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.contract import SandboxLevel
from evaluator.errors import EvaluatorError
from evaluator.hardware.profiles import Profile
from evaluator.host.building.build_job import BuildJob
from evaluator.host.building.builder_process import BuildCancelled
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.sandbox.bubblewrap import command, environment, write_private
from evaluator.host.settings import JudgeSettings
from evaluator.judging import primitives

_EXECUTE = """import os, subprocess, sys
tool, module = sys.argv[1:]
os.environ["PATH"] = os.path.dirname(tool) + ":" + os.environ["PATH"]
for what in (["-sass"], ["-all", "-ptx"]):
    code = subprocess.run([tool, *what, module]).returncode
    if code:
        sys.exit(code)"""
"""cuobjdump starts nvdisasm, which lies beside it and is searched on PATH.

A module linked from relocatable parts has PTX only in the parts, which `-all` shows. The machine code of the parts is
not read: a device library brings its own for every architecture (NVSHMEM's takes 600 MB as text)."""

READING = "sass, ptx of parts too, symbols; with lines"
"""What is read of a module, and what it holds. Cached builds with another value are made again."""

MODULES = (".so", ".cubin")
"""How the names of files with machine code end."""

PTX = ".ptx"

_LONGEST_S = 60
"""The time limit for all listings of a build together."""

_MOST_BYTES = 64 * 1024**2
"""The size limits of one listing, and of all together, with the PTX beside them."""

_MOST_MEMORY_BYTES = 16 * 1024**3
"""The address space of each process that reads a module."""

_END_S = 30.0
_POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Module:
    """A built module, and the private folder in which it is read."""

    path: str
    content: bytes
    private: Path

    def write(self) -> Path:
        """Put it where the sandbox shows it; returns its path outside."""
        write_private(self.private)
        target = self.private / "built" / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.content)
        return target


def listings(
    artefacts: Mapping[str, bytes],
    *,
    job: BuildJob,
    profile: Profile,
    settings: JudgeSettings,
) -> Iterator[tuple[str, str]]:
    """Name and disassembly (SASS, and PTX where there is some) of every module that can be read in time.

    Of a module the machine code is left out where this node has no cuobjdump, or the listings take over a minute or
    64 MB together. Then only the source, and PTX in a separate file, show what it uses.

    Args:
        artefacts: modules (.so, .cubin) by path; Triton keeps a cubin's PTX in a file beside it (.ptx).
        job: the build that they are of.
        profile: the slot's.
        settings: the slot's.

    Raises:
        BuildCancelled: `job.cancelled()` became true.
    """
    found = tool()
    deadline, room = time.monotonic() + job.deadlines.step(_LONGEST_S), _MOST_BYTES
    for path, content in artefacts.items():
        if not path.endswith(MODULES):
            continue
        code = None
        if found is not None:
            with tempfile.TemporaryDirectory(prefix="disassembly-", dir=job.workdir) as name:
                code = output_of(
                    Module(path=path, content=content, private=Path(name)),
                    [_EXECUTE, found],
                    job=job,
                    profile=profile,
                    settings=settings,
                    seconds=deadline - time.monotonic(),
                    most_bytes=room,
                )
            room -= len(code or "")
        beside = _ptx_beside(path, artefacts, most_bytes=room)
        room -= len(beside or "")
        if texts := [text for text in (code, beside) if text is not None]:
            yield Path(path).name, "\n".join(texts)


def _ptx_beside(path: str, artefacts: Mapping[str, bytes], *, most_bytes: int) -> str | None:
    """What Triton had compiled into the cubin at `path`, as `primitives.in_machine_code` reads it."""
    ptx = artefacts.get(str(Path(path).with_suffix(PTX))) if path.endswith(".cubin") else None
    if ptx is None or most_bytes <= 0:
        return None
    return primitives.ptx_listing(ptx[:most_bytes].decode(errors="replace"))


def output_of(
    module: Module,
    program: Sequence[str],
    arguments: Sequence[str] = (),
    *,
    job: BuildJob,
    profile: Profile,
    settings: JudgeSettings,
    seconds: float,
    most_bytes: int,
) -> str | None:
    """What `program` (Python's text, then its first arguments) prints about `module`, whose path comes next.

    None where it fails, or exceeds its time or size.

    Raises:
        BuildCancelled: `job.cancelled()` became true.
        EvaluatorError: it does not end.
    """
    if seconds <= 0 or most_bytes <= 0:
        return None
    outside = module.write()
    bare = job.confinement.level is SandboxLevel.NONE
    inside = str(outside) if bare else f"/built/{module.path}"
    line = command(
        job.confinement,
        ["-c", *program, inside, *arguments],
        private=module.private,
        profile=profile,
        settings=settings,
    )
    variables = environment(profile, home=str(module.private)) if bare else {}
    return _listing(line, private=module.private, variables=variables, seconds=seconds, most_bytes=most_bytes, job=job)


def _listing(
    line: Sequence[str],
    *,
    private: Path,
    variables: Mapping[str, str],
    seconds: float,
    most_bytes: int,
    job: BuildJob,
) -> str | None:
    """What the command prints; None where it fails or exceeds its time, size or memory."""
    with tempfile.TemporaryFile(dir=private) as output:
        process = subprocess.Popen(  # noqa: S603 - our own command, no shell
            ["prlimit", f"--fsize={most_bytes}", f"--as={_MOST_MEMORY_BYTES}", "--core=0", *line],  # noqa: S607
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env=dict(variables),
            start_new_session=True,
        )
        try:
            code = _code(process, deadline=time.monotonic() + seconds, cancelled=job.cancelled)
        finally:
            # Kill its whole session: a first process may have started others.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _wait_for_the_end(process, job.deadlines)
        if code != 0:
            return None
        output.seek(0)
        return output.read(most_bytes).decode(errors="replace")


def _code(process: subprocess.Popen[bytes], *, deadline: float, cancelled: Callable[[], bool]) -> int | None:
    """What the process ends with; None where it goes on beyond the deadline. Raises BuildCancelled."""
    while True:
        if cancelled():
            raise BuildCancelled("the build was cancelled")
        left = deadline - time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=max(0.0, min(left, _POLL_S)))
        if left <= 0:
            return None


def _wait_for_the_end(process: subprocess.Popen[bytes], deadlines: Deadlines) -> None:
    try:
        process.wait(timeout=deadlines.killing(_END_S))
    except subprocess.TimeoutExpired as error:
        raise EvaluatorError("a program that reads machine code still runs after it was killed") from error


def tool() -> str | None:
    """The cuobjdump of the tool kit, or of the package nvidia-cuda-cuobjdump beside the interpreter's others."""
    packaged = sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("cu*/bin"))
    folders = [os.environ.get("PATH", ""), "/usr/local/cuda/bin", *map(str, packaged)]
    return shutil.which("cuobjdump", path=":".join(folders))
