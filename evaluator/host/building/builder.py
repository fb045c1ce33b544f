"""Compiles a submission before it occupies ranks: in its own sandbox, once per source and tool chain."""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from evaluator.contract import (
    Backend,
    BuildResult,
    Detection,
    EvaluationRequest,
    Finding,
    MachineCode,
    Message,
    SandboxLevel,
    Verdict,
)
from evaluator.errors import EvaluatorError, NodeTrouble
from evaluator.hardware import profiles
from evaluator.host.building import builder_process, code_listing, detections, disassembly
from evaluator.host.building.builder_process import BuildLimitExceeded, BuildLimits, Sent
from evaluator.host.building.compiler_errors import MAX_FINDINGS, Origin, find_errors
from evaluator.host.building.stand_ins import StandIn, stand_ins
from evaluator.host.machine.facts import sources_digest
from evaluator.host.process.helper_process import HelperLimitExceeded, HelperProcess
from evaluator.host.process.hold import UNHURRIED, Hold
from evaluator.host.process.logs import clean
from evaluator.host.process.spawner import Spawner
from evaluator.host.sandbox.bubblewrap import (
    Confinement,
    command,
    environment,
    layout,
    open_filter,
    readable_file,
    write_private,
)
from evaluator.host.sandbox.cgroups import Group, GroupLimits
from evaluator.host.sandbox.host_users import inside_groups
from evaluator.host.settings import JudgeSettings
from problems import registry

_CALL = "compile_cuda_extension"
_TRITON_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.MULTILINE)
_KEPT, _KEPT_BYTES = 200, 8 * 1024**3
"""How many builds, and how many bytes, the cache keeps; the least recently used are removed first."""

_LOG_CHARACTERS, _COMMAND_CHARACTERS, _NOTE_CHARACTERS = 256 * 1024, 4096, 16 * 1024
_EXTENSIONS, _NOTES = 64, 64
"""The output of a build is cut to this length before it is parsed."""


class _ExtensionOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the process inside the sandbox reports of one extension; untrusted."""

    name: str
    succeeded: bool
    seconds: float
    log: str
    is_certain: bool
    file: str | None
    line: int | None


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


@dataclass(frozen=True, kw_only=True)
class Built:
    """The outcome of a build: findings for the author, and the folder of the modules (empty where none).

    `code` is the machine code with source lines, where the request's mode asks for it.
    """

    result: BuildResult
    findings: tuple[Finding, ...]
    folder: Path
    primitives: tuple[Detection, ...] = ()
    code: MachineCode | None = None

    def copy_to(self, target: Path) -> None:
        """Copy the modules into `target`, an existing folder, with the layout that ranks expect."""
        for name in self.result.artefacts:
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in path.relative_to(target).parents[:-1]:
                (target / folder).chmod(0o755)
            shutil.copyfile(self.folder / name, path)
            path.chmod(0o755)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One build: its private folder, how it is confined, and when it has to end."""

    workdir: Path
    confinement: Confinement
    hold: Hold
    cancelled: Callable[[], bool]

    def refuse_late(self, doing: str) -> None:
        """Raise BuildLimitExceeded after the evaluation's deadline: a reading that was cut short proves nothing."""
        if time.monotonic() >= self.hold.deadline:
            raise BuildLimitExceeded(f"the time of the evaluation was used up after {doing}")


class Builder:
    """Builds submissions for one slot.

    Args:
        settings: the slot's; its profile says for which architecture to build.
        cache: folder of earlier builds; None for one beside the slot's work directory.
        limits: the limits of one build.
        cache_bytes: the limit for all kept builds together.
        helper: the process that reads what was built; None for one of its own in each build.
    """

    def __init__(
        self,
        settings: JudgeSettings,
        *,
        cache: Path | None = None,
        limits: BuildLimits | None = None,
        cache_bytes: int = _KEPT_BYTES,
        helper: HelperProcess | None = None,
    ) -> None:
        self._helper = helper
        self._cache_bytes = cache_bytes
        self._settings = settings
        self._profile = profiles.get(settings.profile)
        self._limits = limits or BuildLimits()
        base = settings.work_dir or Path(tempfile.gettempdir()) / f"pkb-{os.getuid()}"
        self._cache = cache or base / "builds"

    def build(
        self,
        request: EvaluationRequest,
        *,
        workdir: Path,
        sandbox: Confinement,
        hold: Hold = UNHURRIED,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Built:
        """Build everything that the submission of `request` will ask for, or take it from the cache.

        What is not done at the evaluation's deadline is over its limit, and not kept.

        Args:
            request: whose source is built.
            workdir: a private folder for this evaluation; the build removes what it puts there.
            sandbox: how the builder is confined.
            hold: the times of the evaluation that waits for this build.
            cancelled: polled; once true, the build ends.

        Raises:
            BuildCancelled: `cancelled()` became true.
            EvaluatorError: this node cannot build: no tool chain, or the sandbox does not start.
        """
        if not is_needed(request):
            return Built(result=BuildResult(succeeded=True, seconds=0.0, cached=False), findings=(), folder=workdir)
        run = _Run(workdir=workdir, confinement=sandbox, hold=hold, cancelled=cancelled)
        started = time.monotonic()
        try:
            entry = self._cache / self._key(request)
            record = self._kept(entry) or self._made(request, entry, run)
            code = self._code(request, record, entry, run)
        except BuildLimitExceeded as exceeded:
            return _over_limit(str(exceeded), seconds=time.monotonic() - started, folder=workdir)
        return Built(
            result=record.result, findings=record.findings, folder=entry, primitives=record.primitives, code=code
        )

    def _kept(self, entry: Path) -> BuildRecord | None:
        """The record of an earlier build in `entry`."""
        kept = _read(entry)
        if kept is None:
            return None
        os.utime(entry)
        return msgspec.structs.replace(kept, result=msgspec.structs.replace(kept.result, cached=True, seconds=0.0))

    def _made(self, request: EvaluationRequest, entry: Path, run: _Run) -> BuildRecord:
        """Build, read what came out, and keep both in `entry`; raises BuildLimitExceeded."""
        started = time.monotonic()
        sent = self._sent(request, run)
        seconds = time.monotonic() - started
        record = _judge(sent, seconds=seconds, found=self._detections(sent.artefacts, run))
        run.refuse_late("reading what was built")
        _keep(entry, record, sent.artefacts)
        self._prune()
        return record

    def _code(self, request: EvaluationRequest, record: BuildRecord, entry: Path, run: _Run) -> MachineCode | None:
        """The machine code of a build with source lines, listed once; None where the mode does not ask for it."""
        if not request.mode.lists_machine_code or not record.result.artefacts:
            return None
        path = entry / _CODE
        with contextlib.suppress(FileNotFoundError):
            return MachineCode.from_json(path.read_text(encoding="utf-8"))
        code = code_listing.machine_code(
            {name: (entry / name).read_bytes() for name in record.result.artefacts},
            lines=code_listing.Lines(request.source, record.origins),
            confinement=run.confinement,
            profile=self._profile,
            settings=self._settings,
            workdir=run.workdir,
            hold=run.hold,
        )
        run.refuse_late("listing machine code")
        # Another slot may list the same build: each writes a file of its own and moves it in one step.
        with tempfile.NamedTemporaryFile("w", dir=entry, encoding="utf-8", delete=False) as file:
            file.write(code.to_json())
        Path(file.name).replace(path)
        return code

    def _detections(self, artefacts: dict[str, bytes], run: _Run) -> tuple[Detection, ...]:
        """What the modules use; raises BuildLimitExceeded."""
        listings = disassembly.listings(
            artefacts,
            confinement=run.confinement,
            profile=self._profile,
            settings=self._settings,
            workdir=run.workdir,
            hold=run.hold,
        )
        with self._reader() as helper:
            try:
                return detections.find(artefacts, listings, helper=helper, workdir=run.workdir, within=run.hold.step)
            except HelperLimitExceeded as exceeded:
                raise BuildLimitExceeded(f"what was built could not be read: {exceeded}") from exceeded

    @contextlib.contextmanager
    def _reader(self) -> Iterator[HelperProcess]:
        """The slot's helper process, or one for this build alone."""
        if self._helper is not None:
            yield self._helper
            return
        with Spawner() as spawner, contextlib.closing(HelperProcess(spawner)) as helper:
            yield helper

    def _key(self, request: EvaluationRequest) -> str:
        parts = (
            request.source.digest,
            _own_digest(),
            toolchain() if _wants_cuda(request) else "",
            _triton_version() if _wants_triton(request) else "",
            disassembly.READING,
            json.dumps(self._calls(request)),
            *self._architectures(),
            str(self._profile.world_size),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _calls(self, request: EvaluationRequest) -> list[tuple[str, list[StandIn]]]:
        """The arguments that Triton kernels are compiled for, at every size to be judged; shapes without values."""
        if not _wants_triton(request):
            return []
        problem, profile = registry.get(request.problem), self._profile
        dtype = request.dtype or "bfloat16"
        # Sizes of every mode, so that a later ranked evaluation needs no other build.
        sizes = request.sizes or dict.fromkeys(size for names in profile.sizes.values() for size in names)
        found = ((size, stand_ins(problem, size, world_size=profile.world_size, dtype=dtype)) for size in sizes)
        return [(size, arguments) for size, arguments in found if arguments is not None]

    def _architectures(self) -> tuple[str, ...]:
        return profiles.architectures(self._profile)

    def _sent(self, request: EvaluationRequest, run: _Run) -> Sent:
        """What the process inside the sandbox sends; raises BuildLimitExceeded."""
        confinement = run.confinement
        with tempfile.TemporaryDirectory(prefix="build-", dir=run.workdir) as name:
            private = Path(name)
            write_private(private)
            for file in request.source.files:
                path = private / "source" / file.path
                readable_file(path, file.text)
            bare = confinement.level is SandboxLevel.NONE
            home = str(builder_process.private_home(private)) if bare else "/tmp"  # noqa: S108 - the sandbox's own tmpfs

            variables = environment(self._profile, home=home) if bare else {}
            call_filter = None if bare else open_filter()
            inherited = () if call_filter is None else (call_filter,)
            group = self._group(confinement, name=private.name)

            def line_for(output: int) -> list[str]:
                line = self._line(
                    private, confinement, calls=self._calls(request), home=home, output=output, call_filter=call_filter
                )
                return inside_groups(line, group.entrances) if group is not None else line

            try:
                return builder_process.run(
                    line_for,
                    environment=variables,
                    limits=self._limits,
                    hold=run.hold,
                    inherited=inherited,
                    cancelled=run.cancelled,
                )
            finally:
                for descriptor in inherited:
                    os.close(descriptor)
                self._end_group(group)

    def _group(self, confinement: Confinement, *, name: str) -> Group | None:
        limits = self._limits
        allowed = GroupLimits(
            memory_bytes=limits.memory_bytes,
            processes=limits.processes,
            cores=limits.cores,
            processors=limits.processors,
        )
        hierarchy = confinement.hierarchy
        return hierarchy.new(name, allowed) if hierarchy is not None else None

    def _end_group(self, group: Group | None) -> None:
        """End all processes of a build; raises BuildLimitExceeded where the kernel ended one for its memory."""
        if group is None:
            return
        group.kill()
        kills = group.memory_kills
        group.remove()
        if kills:
            raise BuildLimitExceeded(f"the build used more than {self._limits.memory_bytes:,} bytes of memory")

    def _line(
        self,
        private: Path,
        confinement: Confinement,
        *,
        calls: list[tuple[str, list[StandIn]]],
        home: str,
        output: int,
        call_filter: int | None,
    ) -> list[str]:
        inside = layout(confinement, private=private)
        arguments = {
            "source": inside.source,
            "compat": inside.compat,
            "scratch": f"{home}/extensions",
            "architectures": self._architectures(),
            "world_size": self._profile.world_size,
            "calls": calls,
            # The same path as in the ranks, because Triton stores absolute paths.
            "triton_cache": f"{home}/triton",
            "capability": profiles.capability(self._profile),
            "output": output,
        }
        program = builder_process.inside(arguments, program=inside.builder)
        settings = dataclasses.replace(self._settings, temporary_bytes=self._limits.scratch_bytes)
        line = command(
            confinement, program, private=private, profile=self._profile, settings=settings, call_filter=call_filter
        )
        return builder_process.limited(line, self._limits)

    def _prune(self) -> None:
        entries = sorted(self._cache.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        total = 0
        for number, entry in enumerate(entries):
            total += sum(path.stat().st_size for path in entry.rglob("*") if path.is_file())
            # The newest was just made and is about to be used.
            if number and (number >= _KEPT or total > self._cache_bytes):
                shutil.rmtree(entry, ignore_errors=True)


def is_needed(request: EvaluationRequest) -> bool:
    """Whether a submission has anything to build ahead, and is judged on GPUs.

    A node without the compiler has already refused the backends that need it. A submission in another backend is then
    not built, even if it names the compiler.
    """
    if profiles.get(request.profile).gpu is None:
        return False
    if request.backend is Backend.PYTORCH and not has_toolchain():
        return False
    return _wants_cuda(request) or _wants_triton(request)


def _wants_cuda(request: EvaluationRequest) -> bool:
    return any(_CALL in file.text for file in request.source.files)


def _wants_triton(request: EvaluationRequest) -> bool:
    return any(_TRITON_KERNEL.search(file.text) for file in request.source.files) and _triton_version() != ""


@functools.cache
def _own_digest() -> str:
    """What of the judge decides what a module becomes: its builder, its flags and its headers."""
    arena = Path(__file__).parents[2] / "arena"
    return sources_digest(arena / "builder", arena / "compat")


@functools.cache
def _triton_version() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""


def has_toolchain() -> bool:
    """Whether CUDA can be compiled on this node."""
    try:
        toolchain()
    except NodeTrouble:
        return False
    return True


@functools.cache
def toolchain() -> str:
    """What a build depends on besides its source: versions of nvcc, host compiler, torch and Python.

    Raises:
        NodeTrouble: one of them is missing on this node.
    """
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    try:
        said = [_version(nvcc), _version("g++"), importlib.metadata.version("torch")]
    except (OSError, subprocess.SubprocessError, importlib.metadata.PackageNotFoundError) as error:
        raise NodeTrouble(f"this node cannot compile CUDA: {error}") from error
    return "\n".join([*said, str(sysconfig.get_config_var("SOABI"))])


def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout  # noqa: S603 - fixed programs


def _judge(sent: Sent, *, seconds: float, found: tuple[Detection, ...]) -> BuildRecord:
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
    return BuildRecord(result=result, findings=tuple(findings[:MAX_FINDINGS]), primitives=found, origins=origins)


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


def _over_limit(message: str, *, seconds: float, folder: Path) -> Built:
    finding = Finding(verdict=Verdict.LIMIT_EXCEEDED, message=message)
    result = BuildResult(succeeded=False, seconds=seconds, cached=False, log=message)
    return Built(result=result, findings=(finding,), folder=folder)


_RECORD, _CODE = "record.json", "code.json"


def _keep(entry: Path, record: BuildRecord, artefacts: dict[str, bytes]) -> None:
    """Put a build into the cache in one step: a reader finds all of it or nothing."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".", dir=entry.parent))
    for name, content in artefacts.items():
        path = partial / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (partial / _RECORD).write_text(record.to_json(), encoding="utf-8")
    try:
        partial.rename(entry)
    except OSError:  # another slot cached the same build first
        shutil.rmtree(partial)


def _read(entry: Path) -> BuildRecord | None:
    """The cached build, if its modules still have the recorded bytes."""
    try:
        record = BuildRecord.from_json((entry / _RECORD).read_text(encoding="utf-8"))
        intact = all(
            hashlib.sha256((entry / name).read_bytes()).hexdigest() == digest
            for name, digest in record.result.artefacts.items()
        )
    except FileNotFoundError:
        return None
    if not intact:
        raise EvaluatorError(f"the cached build in {entry} was changed on disk; remove the folder")
    return record
