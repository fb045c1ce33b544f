"""The record of a build, from what the process inside the sandbox sends: nothing of that is trusted."""

import hashlib
from typing import Annotated

import msgspec

from evaluator.contract import BuildResult, Detection, Finding, Message
from evaluator.host.building.builder_process import Sent
from evaluator.host.building.compiler_errors import MAX_FINDINGS, Origin, find_errors
from evaluator.host.process.logs import clean

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
    log = clean(_cut("\n".join([*(item.log for item in extensions), *notes, sent.said])))
    artefacts = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(sent.artefacts.items())}
    commands = (item.log.partition("\n")[0] for item in (*failed, *extensions))
    result = BuildResult(
        succeeded=not failed,
        seconds=seconds,
        cached=False,
        command=clean(next(commands, "")[:_COMMAND_CHARACTERS]),
        log=log,
        artefacts=artefacts,
    )
    origins = {
        clean(item.name): (clean(origin.file), origin.line or 1)
        for item in extensions
        if (origin := _origin(item)).file
    }
    return BuildRecord(result=result, findings=tuple(findings[:MAX_FINDINGS]), primitives=primitives, origins=origins)


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
