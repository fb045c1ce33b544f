"""Reads compiler output: which lines are errors, and to which line of the author's files each belongs."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from evaluator.contract import Finding, Verdict

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
    found = tuple(itertools.islice(dict.fromkeys(_errors(log, origin)), MAX_FINDINGS))
    if found:
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
