"""Disassembles built modules, and finds which hardware paths they use.

Modules are as a build makes them, so they are disassembled in a sandbox, and all of this is read in another process.
"""

import itertools
import json
import os
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from evaluator.contract import Detection, SandboxLevel
from evaluator.host.building.build_job import BuildJob
from evaluator.host.process import limited
from evaluator.host.process.logs import clean
from evaluator.host.sandbox.bubblewrap import command, environment, write_private
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


def listings(artefacts: Mapping[str, bytes], *, job: BuildJob) -> Iterator[tuple[str, str]]:
    """Name and disassembly (SASS, and PTX where there is some) of every module that can be read in time.

    Of a module the machine code is left out where this node has no cuobjdump, or the listings take over a minute or
    64 MB together. Then only the source, and PTX in a separate file, show what it uses.

    Args:
        artefacts: modules (.so, .cubin) by path; Triton keeps a cubin's PTX in a file beside it (.ptx).
        job: the build that they are of.
    """
    found = tool()
    deadline, room = time.monotonic() + job.deadlines.step(_LONGEST_S), _MOST_BYTES
    for path, content in artefacts.items():
        if not path.endswith(MODULES):
            continue
        code = None
        if found is not None:
            code = output_of(
                path,
                content,
                [_EXECUTE, found],
                prefix="disassembly-",
                job=job,
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
    path: str,
    content: bytes,
    program: Sequence[str],
    arguments: Sequence[str] = (),
    *,
    prefix: str,
    job: BuildJob,
    seconds: float,
    most_bytes: int,
) -> str | None:
    """What `program` (Python's text, then its first arguments) prints about a built module, whose path comes next.

    It runs in a private folder whose name begins with `prefix`. None where it fails, or exceeds its time or size.
    Raises EvaluatorError where it does not start or end.
    """
    if seconds <= 0 or most_bytes <= 0:
        return None
    bare = job.confinement.level is SandboxLevel.NONE
    with tempfile.TemporaryDirectory(prefix=prefix, dir=job.workdir) as name:
        private = Path(name)
        write_private(private)
        outside = private / "built" / path
        outside.parent.mkdir(parents=True, exist_ok=True)
        outside.write_bytes(content)
        line = command(
            job.confinement,
            ["-c", *program, str(outside) if bare else f"/built/{path}", *arguments],
            private=private,
            profile=job.profile,
            settings=job.settings,
        )
        code, printed = limited.run(
            line,
            environment=environment(job.profile, home=name) if bare else {},
            seconds=seconds,
            output_bytes=most_bytes,
            memory_bytes=_MOST_MEMORY_BYTES,
            deadlines=job.deadlines,
        )
    return printed.decode(errors="replace") if code == 0 else None


def tool() -> str | None:
    """The cuobjdump of the tool kit, or of the package nvidia-cuda-cuobjdump beside the interpreter's others."""
    packaged = sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("cu*/bin"))
    folders = [os.environ.get("PATH", ""), "/usr/local/cuda/bin", *map(str, packaged)]
    return shutil.which("cuobjdump", path=":".join(folders))


_READ = f"{__name__}:read_detections"

LONGEST_S = 60.0
"""How long the modules of one build and their listings may take to read."""


def detections(
    artefacts: Mapping[str, bytes],
    listings: Iterator[tuple[str, str]],
    *,
    job: BuildJob,
) -> tuple[Detection, ...]:
    """What symbols and machine code of `artefacts` show, with the `listings` of modules by name.

    There is one detection per primitive and module. Raises as `BuildJob.read` does.
    """
    modules = [(path, content) for path, content in artefacts.items() if path.endswith(MODULES)]
    if not modules:
        return ()
    with tempfile.TemporaryDirectory(prefix="reading-", dir=job.workdir) as name:
        folder = Path(name)
        parts = [
            *(
                _part(folder, number, Path(path).name, "symbols", content)
                for number, (path, content) in enumerate(modules)
            ),
            *(_part(folder, number, module, "code", text.encode()) for number, (module, text) in enumerate(listings)),
        ]
        found = job.read(_READ, json.dumps(parts), seconds=LONGEST_S)
        return msgspec.json.decode(found, type=tuple[Detection, ...])


def _part(folder: Path, number: int, module: str, kind: str, content: bytes) -> dict[str, str]:
    path = folder / f"{kind}-{number}"
    path.write_bytes(content)
    return {"module": module, "kind": kind, "path": str(path)}


def read_detections(text: str) -> str:
    """In that process: the detections in the files that `text` lists, as JSON."""
    parts: list[dict[str, Any]] = json.loads(text)
    found = itertools.chain.from_iterable(_detections(Path(part["path"]), part) for part in parts)
    shown = (msgspec.structs.replace(each, detail=clean(each.detail)) for each in found)
    return msgspec.json.encode(tuple({(each.primitive, each.file): each for each in shown}.values())).decode()


def _detections(path: Path, part: Mapping[str, str]) -> tuple[Detection, ...]:
    if part["kind"] == "symbols":
        return primitives.in_symbols(path.read_bytes(), module=part["module"])
    return primitives.in_machine_code(path.read_text(encoding="utf-8"), module=part["module"])
