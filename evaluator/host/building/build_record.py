"""The record of a build, from what the process inside the sandbox sends: nothing of that is trusted.

Of compilers' output it says which lines are errors, and to which line of the author's files each belongs.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import msgspec

from evaluator.contract import BuildResult, Detection, Finding, Message, Verdict
from evaluator.host.building.builder_process import Sent
from evaluator.host.process.logs import clean

MAX_FINDINGS = 50
_MESSAGE_CHARACTERS, _FILE_CHARACTERS = 500, 200

# nvcc: kernel.cu(8): error: identifier "x" is undefined; also "catastrophic error" and "error #20:".
_NVCC = re.compile(
    r"^(?P<file>[^\s()][^()\n]*)\((?P<line>\d{1,7})\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$"
)
# Host compiler: kernel.cu:8:12: error: ...
_GNU = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d{1,7}):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$")
# Host assembler, for device instructions in a function that the host calls: kernel.cu:8: Error: ...
_GAS = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d{1,7}): Error: (?P<text>.*)$")
# Assembler: ptxas kernel.ptx, line 12; error   : ...; its lines are those of generated text.
_PTXAS = re.compile(r"^ptxas (?P<file>[^,\n]+), line \d+; (?:error|fatal)\s*: (?P<text>.*)$")
_LINKER = re.compile(r"^(?:/usr/bin/|\S*-)?ld: (?P<text>.*(?:cannot find|undefined reference|undefined symbol).*)$")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where the source of the extension `name` is: a file of the submission and the line it starts at."""

    name: str
    file: str | None
    line: int | None


def find_errors(log: str, *, origin: Origin) -> tuple[Finding, ...]:
    """Every error in `log` as a finding with the author's file and line where they are known.

    A log without a recognised line gives one finding: the build failed.
    """
    # The assembler repeats an error wherever the function was inlined.
    if found := tuple(dict.fromkeys(_errors(log, origin))):
        return found
    message = f"building the extension {origin.name} failed; the compiler's output is in the build log"
    return (Finding(verdict=Verdict.COMPILE_ERROR, message=message, file=origin.file),)


def _errors(log: str, origin: Origin) -> Iterator[Finding]:
    for line in log.splitlines():
        if match := _NVCC.match(line) or _GNU.match(line) or _GAS.match(line):
            file, number = _location(match["file"], int(match["line"]), origin)
            yield _finding(match["text"], file=file[:_FILE_CHARACTERS], line=number)
        elif match := _PTXAS.match(line) or _LINKER.match(line):
            yield _finding(match["text"], file=origin.file)


def _finding(text: str, *, file: str | None, line: int | None = None) -> Finding:
    message = text.strip()[:_MESSAGE_CHARACTERS]
    return Finding(verdict=Verdict.COMPILE_ERROR, message=message, file=file, line=line)


def _location(file: str, line: int, origin: Origin) -> tuple[str, int]:
    """The author's file and line for a line of the compiled file; files beside it keep their names."""
    if file == f"{origin.name}.cu" and origin.file is not None and origin.line is not None:
        return origin.file, origin.line + line - 1
    return file.removeprefix("/source/"), line


_LOG_CHARACTERS, _COMMAND_CHARACTERS, _NOTE_CHARACTERS = 256 * 1024, 4096, 16 * 1024
_EXTENSIONS, _NOTES = 64, 64
"""The output of a build is cut to this length before it is parsed."""
_LineNumber = Annotated[int, msgspec.Meta(ge=1, le=10**7)]
"""Numbers of more than 4,300 digits can be read, and one more cannot be written."""


class _ExtensionOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the process inside the sandbox reports of one extension; untrusted."""

    name: str
    succeeded: bool
    seconds: float
    log: str
    is_certain: bool
    file: str | None
    line: _LineNumber | None


class _Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the process inside the sandbox reports of a build; untrusted."""

    extensions: tuple[_ExtensionOutcome, ...]
    notes: tuple[str, ...]


class BuildRecord(Message, frozen=True, kw_only=True):
    """What the cache keeps with the modules of one build.

    `origins` says by extension in which file of the submission, and at which line, its CUDA source begins.
    """

    result: BuildResult
    findings: tuple[Finding, ...] = ()
    primitives: tuple[Detection, ...] = ()
    origins: dict[str, tuple[str, int]] = {}


def record_of(sent: Sent, *, seconds: float, primitives: tuple[Detection, ...]) -> BuildRecord:
    """The record of what the process inside reports; an unreadable report counts as nothing built."""
    try:
        outcome = msgspec.json.decode(sent.result or b"", type=_Outcome)
    except (msgspec.DecodeError, UnicodeDecodeError):
        outcome = _Outcome(extensions=(), notes=("the builder ended without a result",))
    extensions = [msgspec.structs.replace(item, log=_cut(item.log)) for item in outcome.extensions[:_EXTENSIONS]]
    notes = [note[:_NOTE_CHARACTERS] for note in outcome.notes[:_NOTES]]
    failed = [item for item in extensions if item.is_certain and not item.succeeded]
    findings = [finding for item in failed for finding in find_errors(clean(item.log), origin=_origin(item))]
    if (others := len(findings) - MAX_FINDINGS + 1) > 1:
        findings[-others:] = [_finding(f"{others:,} further errors, which the build log has", file=None)]
    said = "\n".join([*(item.log for item in extensions), *notes, sent.said])
    is_cut = len(said) > _LOG_CHARACTERS or any(len(item.log) > _LOG_CHARACTERS for item in outcome.extensions)
    artefacts = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(sent.artefacts.items())}
    commands = (item.log.partition("\n")[0] for item in (*failed, *extensions))
    result = BuildResult(
        succeeded=not failed,
        seconds=seconds,
        cached=False,
        command=clean(next(commands, "")[:_COMMAND_CHARACTERS]),
        log=clean(_cut(said)),
        artefacts=artefacts,
        is_cut=is_cut,
    )
    origins = {
        clean(item.name): (clean(origin.file), origin.line or 1)
        for item in extensions
        if (origin := _origin(item)).file
    }
    return BuildRecord(result=result, findings=tuple(findings), primitives=primitives, origins=origins)


def _cut(text: str) -> str:
    """Beginning and end of a long log: compilers name the first error first and the outcome last."""
    if len(text) <= _LOG_CHARACTERS:
        return text
    half = _LOG_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _origin(item: _ExtensionOutcome) -> Origin:
    """Where the builder reports an extension's source to be, safe to show."""
    file = clean(item.file)[:200] if item.file is not None else None
    return Origin(name=clean(item.name)[:200], file=file, line=item.line)
