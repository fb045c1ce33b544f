"""Lists the machine code of a build's kernels with source lines, in a sandbox because the modules are untrusted.

What the sandbox prints is read in another process, for it may be long and of any form. Only mode profile asks for it.
What primitives a module uses is read apart from it (`disassembly`).
"""

import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from evaluator.contract import Instruction, KernelCode, MachineCode, Message
from evaluator.contract.code import MOST_INSTRUCTIONS, MOST_UNPACKED_BYTES, pack
from evaluator.host.building import disassembly
from evaluator.host.building.build_job import BuildJob
from evaluator.host.process.logs import clean

_EXECUTE = """import os, pathlib, re, shutil, subprocess, sys, tempfile
tool, module, room = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.environ["PATH"] = os.path.dirname(tool) + ":" + os.environ["PATH"]
folder = tempfile.mkdtemp()
parts = [module]
if not module.endswith(".cubin"):
    subprocess.run([tool, "-xelf", "all", module], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    parts = sorted(map(str, pathlib.Path(folder).glob("*.cubin")))
kept = []
for part in parts:
    for command in ([tool, "-res-usage", part], ["nvdisasm", "-gi", "-c", part]):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            kept.append(process.stdout.read(room))
            process.kill()
        room -= len(kept[-1])
text = b"\\n".join(kept)
sys.stdout.buffer.write(text)
names = sorted(set(re.findall(rb"^\\.text\\.(\\S+):$", text, re.MULTILINE)))
if names and shutil.which("c++filt"):
    told = subprocess.run(["c++filt"], input=b"\\n".join(names), stdout=subprocess.PIPE, check=True).stdout.splitlines()
    sys.stdout.buffer.write(b"\\n" + b"\\n".join(b"Demangled\\t%s\\t%s" % pair for pair in zip(names, told)))"""
"""cuobjdump takes the machine code out of a module; nvdisasm prints it with lines, up to `room` bytes in all."""

_READ = f"{__name__}:read"

_LONGEST_S = 60
"""The time limit for listing all modules of a build together, and for reading what that printed."""

_MOST_BYTES = 24 * 1024**2
"""How much of the listing is read, of all modules together."""

_MOST_KERNELS = 64
"""How many kernels of a build are kept."""

_NAME_CHARACTERS, _TEXT_CHARACTERS, _FILE_CHARACTERS, _MOST_FILES = 300, 160, 120, 200

_USAGE_OF = re.compile(r"^ *Function (\S+):")
_USAGE = re.compile(r"^ *REG:(\d+) STACK:(\d+) SHARED:(\d+)")
_BEGINS = re.compile(r"^\.text\.(\S+):$")
_LABEL = re.compile(r"^([.$\w]\S*):$")
_LINE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*)$")
_DEMANGLED = re.compile(r"^Demangled\t(\S+)\t(.+)$")


@dataclass(kw_only=True)
class _Kernel:
    """One kernel as it is read: for each entry its text and the lines beside it, the innermost first."""

    symbol: str
    entries: list[tuple[str, tuple[tuple[str, int], ...]]] = field(default_factory=list)


@dataclass(kw_only=True)
class _Listing:
    """What one module's listing says."""

    kernels: list[_Kernel] = field(default_factory=list)
    usage: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


class Lines:
    """Where in a submission the lines of its builds are, and the names of the files that were met.

    Args:
        paths: of the submission's files.
        origins: by extension, where in the submission its CUDA source begins.
    """

    def __init__(self, paths: Sequence[str], origins: Mapping[str, tuple[str, int]]) -> None:
        self._paths = paths
        self._origins = {f"{name}.cu": origin for name, origin in origins.items() if origin[0] in self._paths}
        self._numbers: dict[str, int] = {}

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were met, in the order of their numbers."""
        return tuple(self._numbers)

    def best(self, met: Sequence[tuple[str, int]]) -> tuple[int, int]:
        """Number and line of the innermost of `met` that is the author's; else the innermost; -1 and 0 for none."""
        if not met:
            return -1, 0
        own = (found for path, line in met if (found := self._own(path, line)) is not None)
        path, line = next(own, (PurePosixPath(met[0][0]).name, met[0][1]))
        name = clean(path)[:_FILE_CHARACTERS]
        if name not in self._numbers and len(self._numbers) == _MOST_FILES:
            return -1, 0
        return self._numbers.setdefault(name, len(self._numbers)), line

    def _own(self, path: str, line: int) -> tuple[str, int] | None:
        origin = self._origins.get(PurePosixPath(path).name)
        if origin is not None:
            return origin[0], origin[1] + line - 1
        return next(((own, line) for own in self._paths if path.endswith(f"/{own}")), None)


class _Task(Message, frozen=True, kw_only=True):
    """What that process reads: listings as module and path, and where the author's lines are."""

    listings: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]
    origins: dict[str, tuple[str, int]]
    unread: int


def machine_code(
    artefacts: Mapping[str, bytes],
    *,
    job: BuildJob,
    origins: dict[str, tuple[str, int]],
) -> MachineCode:
    """The kernels in `artefacts` with the source line of every instruction, as far as a minute and 24 MB go.

    Args:
        artefacts: modules (.so, .cubin) by path.
        job: the build that they are of.
        origins: by extension, where in the submission its CUDA source begins.

    Raises as `BuildJob.read` does.
    """
    tool = disassembly.tool()
    if tool is None:
        return MachineCode(note="this node has no cuobjdump")
    modules = [path for path in artefacts if path.endswith(disassembly.MODULES)]
    deadline, room = time.monotonic() + job.deadlines.step(_LONGEST_S), _MOST_BYTES
    listings: list[tuple[str, str]] = []
    for path in modules:
        text = disassembly.output_of(
            path,
            artefacts[path],
            [_EXECUTE, tool],
            [str(room)],
            prefix="listing-",
            job=job,
            seconds=deadline - time.monotonic(),
            most_bytes=2 * room,
        )
        if text is not None:
            room = max(0, room - len(text))
            listings.append((Path(path).name, text))
    return find(listings, unread=len(modules) - len(listings), job=job, origins=origins)


def find(
    listings: Sequence[tuple[str, str]],
    *,
    unread: int,
    job: BuildJob,
    origins: dict[str, tuple[str, int]],
) -> MachineCode:
    """The kernels that the listings (module and text) show; `unread` modules of the build have none.

    Raises as `BuildJob.read` does.
    """
    with tempfile.TemporaryDirectory(prefix="listed-", dir=job.workdir) as name:
        files = [Path(name, str(number)) for number in range(len(listings))]
        for file, (_, text) in zip(files, listings, strict=True):
            file.write_text(text, encoding="utf-8")
        task = _Task(
            listings=tuple((module, str(file)) for file, (module, _) in zip(files, listings, strict=True)),
            paths=tuple(file.path for file in job.request.source.files),
            origins=origins,
            unread=unread,
        )
        return MachineCode.from_json(job.read(_READ, task.to_json(), seconds=_LONGEST_S))


def read(text: str) -> str:
    """In that process: the `MachineCode` of the `_Task` that `text` holds, both as JSON."""
    task = _Task.from_json(text)
    lines = Lines(task.paths, task.origins)
    kernels: list[KernelCode] = []
    for module, path in task.listings:
        kernels += _kernels(parse(Path(path).read_text(encoding="utf-8")), module=module, lines=lines)
    return _in_all(kernels, lines=lines, unread=task.unread).to_json()


def _in_all(kernels: Sequence[KernelCode], *, lines: Lines, unread: int) -> MachineCode:
    """As many kernels as are kept, and what is missing."""
    note = f"{unread} of the build's modules could not be read" if unread else ""
    return MachineCode(
        files=lines.files,
        kernels=tuple(kernels[:_MOST_KERNELS]),
        dropped=max(0, len(kernels) - _MOST_KERNELS),
        note=note,
    )


def parse(text: str) -> _Listing:
    """What `_EXECUTE` printed. Anything that is none of its lines is passed over."""
    found = _Listing()
    of = ""
    lines: list[tuple[str, int]] = []
    has_used = False
    for line in text.splitlines():
        if match := _LINE.match(line):
            lines = [*([] if has_used else lines), (match[1], min(int(match[2]), 10**7))][-16:]
            has_used = False
        elif match := _INSTRUCTION.match(line):
            has_used = True
            if found.kernels:
                found.kernels[-1].entries.append((_bare(match[1]), tuple(lines)))
        elif match := _BEGINS.match(line):
            found.kernels.append(_Kernel(symbol=match[1]))
            lines = []
        elif match := _USAGE_OF.match(line):
            of = match[1]
        elif match := _USAGE.match(line):
            found.usage[of] = (int(match[1]), int(match[2]), int(match[3]))
        elif match := _DEMANGLED.match(line):
            found.names[match[1]] = match[2]
        elif (match := _LABEL.match(line)) and found.kernels and found.kernels[-1].entries:
            found.kernels[-1].entries.append((f"{match[1]}:", ()))
    return found


def _bare(instruction: str) -> str:
    """An instruction without its semicolon. A pattern that left it out would take cubic time on a run of spaces."""
    return instruction.rstrip().removesuffix(";").rstrip()


def _kernels(listing: _Listing, *, module: str, lines: Lines) -> Iterator[KernelCode]:
    for kernel in listing.kernels:
        entries = _without_padding(kernel.entries)
        if not entries:
            continue
        registers, stack_bytes, shared_bytes = listing.usage.get(kernel.symbol, (None, None, None))
        yield KernelCode(
            name=clean(listing.names.get(kernel.symbol, kernel.symbol))[:_NAME_CHARACTERS],
            symbol=clean(kernel.symbol)[:_NAME_CHARACTERS],
            module=clean(module)[:_NAME_CHARACTERS],
            registers=registers,
            stack_bytes=stack_bytes,
            shared_bytes=shared_bytes,
            count=sum(not text.endswith(":") for text, _ in entries),
            packed=_packed(entries, lines),
        )


def _packed(entries: Sequence[tuple[str, tuple[tuple[str, int], ...]]], lines: Lines) -> bytes:
    instructions, room = [], MOST_UNPACKED_BYTES // 2
    for text, met in entries[:MOST_INSTRUCTIONS]:
        file, line = lines.best(met)
        shown = clean(text)[:_TEXT_CHARACTERS]
        room -= 4 * len(shown) + 32
        if room < 0:
            break
        instructions.append(Instruction(text=shown, file=file, line=line))
    return pack(instructions)


def _without_padding(
    entries: list[tuple[str, tuple[tuple[str, int], ...]]],
) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """Without the empty instructions and labels at the end."""
    last = len(entries)
    while last and (entries[last - 1][0] == "NOP" or entries[last - 1][0].endswith(":")):
        last -= 1
    return entries[:last]
