"""One builder process in a sandbox of its own: the submission's files go in, what the compilers made comes out."""

import dataclasses
import json
import os
import re
import selectors
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.contract import SandboxLevel
from evaluator.errors import EvaluatorError, LimitExceeded, NodeFailure
from evaluator.host.building import what_to_build
from evaluator.host.building.build_job import BuildJob
from evaluator.host.machine import gpus
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.process.limited import end_session
from evaluator.host.process.logs import clean
from evaluator.host.sandbox import bubblewrap
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.sandbox.cgroups import Group, GroupLimits
from evaluator.host.sandbox.slot_claims import inside_groups

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


def build(job: BuildJob, *, limits: BuildLimits) -> Sent:
    """What the builder's program sends, run on the submission in a sandbox of its own, within `limits`.

    Its session is killed when it has sent everything, sent too much, or taken too long.

    Raises:
        LimitExceeded: of the build (time, memory, size or number of files), or of the evaluation that waits for it.
        EvaluatorError: the process could not be started, or does not end.
        NodeFailure: it ended before it had read anything of the submission, as where its sandbox does not start.
    """
    confinement = job.confinement
    with tempfile.TemporaryDirectory(prefix="build-", dir=job.workdir) as name:
        private = Path(name)
        bubblewrap.write_private(private)
        for file in job.request.source.files:
            bubblewrap.readable_file(private / "source" / file.path, file.text)
        bare = confinement.level is SandboxLevel.NONE
        home = str(bubblewrap.home_without_sandbox(private, confinement)) if bare else "/tmp"  # noqa: S108 - the sandbox's own tmpfs
        group = _group(confinement, limits, name=private.name)
        call_filter = None if bare else bubblewrap.open_filter()
        reading, output = os.pipe()
        inherited = [output] if call_filter is None else [output, call_filter]
        try:
            line = _line(job, private, limits=limits, home=home, output=output, call_filter=call_filter)
            raw, said = _run(
                line if group is None else inside_groups(line, group.entrances),
                reading,
                environment=bubblewrap.environment(job.profile, home=home) if bare else {},
                limits=limits,
                deadlines=job.deadlines,
                inherited=inherited,
            )
        finally:
            for descriptor in (reading, *inherited):
                os.close(descriptor)
            _end_group(group, limits)
    return _sent(raw, said, limits)


def _group(confinement: Confinement, limits: BuildLimits, *, name: str) -> Group | None:
    allowed = GroupLimits(
        memory_bytes=limits.memory_bytes,
        processes=limits.processes,
        cores=limits.cores,
        processors=limits.processors,
    )
    return confinement.hierarchy.new(name, allowed) if confinement.hierarchy is not None else None


def _end_group(group: Group | None, limits: BuildLimits) -> None:
    """End all processes of a build; raises LimitExceeded where the kernel ended one for its memory."""
    if group is None:
        return
    group.kill()
    kills = group.memory_kills
    group.remove()
    if kills:
        raise LimitExceeded(f"the build used more than {limits.memory_bytes:,} bytes of memory")


def _line(
    job: BuildJob, private: Path, *, limits: BuildLimits, home: str, output: int, call_filter: int | None
) -> list[str]:
    """The command line of the process, which writes to the descriptor `output`."""
    confinement, profile = job.confinement, job.profile
    inside = bubblewrap.layout(confinement, private=private)
    arguments = {
        "source": inside.source,
        "compat": inside.compat,
        "scratch": f"{home}/extensions",
        "architectures": gpus.architectures(profile),
        "world_size": profile.world_size,
        "calls": what_to_build.kernel_arguments(job.request, profile),
        # The same path as in the ranks, because Triton stores absolute paths.
        "triton_cache": f"{home}/triton",
        "capability": gpus.capability(profile),
        "output": output,
    }
    settings = dataclasses.replace(job.settings, temporary_bytes=limits.scratch_bytes)
    line = bubblewrap.command(
        confinement,
        [inside.builder, json.dumps(arguments)],
        private=private,
        profile=profile,
        settings=settings,
        call_filter=call_filter,
    )
    return _limited(line, limits, confinement)


def _limited(command: Sequence[str], limits: BuildLimits, confinement: Confinement) -> list[str]:
    """`command` under resource limits, on at most `limits.cores` of this process's cores.

    The number of processes is limited by a control group where there is one. The kernel's other limit counts all
    processes of a user: there the processes of one build would leave none to the builds beside it.

    Raises NodeFailure where util-linux (prlimit, taskset) is not installed.
    """
    prlimit, taskset = shutil.which("prlimit"), shutil.which("taskset")
    if prlimit is None or taskset is None:
        raise NodeFailure("the builder needs prlimit and taskset (util-linux) on this node")
    cores = limits.processors or sorted(os.sched_getaffinity(0))[-limits.cores :]
    are_counted = confinement.hierarchy is not None and "pids" in confinement.hierarchy.folders
    return [
        *(taskset, "--cpu-list", ",".join(map(str, cores))),
        *(prlimit, "--core=0", f"--as={limits.memory_bytes}", f"--fsize={limits.scratch_bytes}"),
        *(f"--nofile={limits.files}", f"--cpu={int(limits.seconds) * limits.cores}"),
        *([] if are_counted else [f"--nproc={limits.processes}"]),
        *command,
    ]


def _run(
    line: Sequence[str],
    reading: int,
    *,
    environment: Mapping[str, str],
    limits: BuildLimits,
    deadlines: Deadlines,
    inherited: list[int],
) -> tuple[bytes, bytes]:
    """Start the process, and read what it sends and what it prints; closes what it inherits."""
    try:
        process = subprocess.Popen(  # noqa: S603 - our command, no shell
            list(line),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=inherited,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise EvaluatorError(f"the builder could not be started: {error}") from error
    # Else what it sends has no end here.
    os.close(inherited.pop(0))
    assert process.stdout is not None
    try:
        return _drain(process.stdout.fileno(), reading, limits, deadlines)
    finally:
        # Inside bubblewrap its whole process namespace goes with it.
        end_session(process, "the builder", seconds=deadlines.killing(_END_S))
        process.stdout.close()


def _drain(printing: int, reading: int, limits: BuildLimits, deadlines: Deadlines) -> tuple[bytes, bytes]:
    """Read frames and output to their ends; only the head of the output is kept."""
    seconds = deadlines.step(limits.seconds)
    deadline = time.monotonic() + seconds
    raw, said = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ, raw)
        selector.register(printing, selectors.EVENT_READ, said)
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


def _sent(raw: bytes, said: bytes, limits: BuildLimits) -> Sent:
    if not raw.startswith(_BEGAN):
        raise NodeFailure(f"the builder ended before it began: {clean(said[:_SHOWN_BYTES].decode(errors='replace'))}")
    sent = _parse(raw, limits, at=len(_BEGAN))
    if len(sent.result or b"") > limits.result_bytes:
        raise LimitExceeded(f"the result of the build exceeds {limits.result_bytes:,} bytes")
    sent.said = said.decode(errors="replace")
    return sent


def _parse(raw: bytes, limits: BuildLimits, *, at: int = 0) -> Sent:
    """The files in the frames from byte `at` on, without truncated ones and those with names of another form.

    Raises LimitExceeded where there are too many frames. Each costs time, even an empty one.
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
