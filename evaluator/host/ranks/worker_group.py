"""The sandbox ranks of one submission, seen from the host: start, reveal, ask, observe, end."""

import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.arena import protocol
from evaluator.arena.protocol import Command, CommandKind, Failure, Report, ReportKind
from evaluator.contract import SandboxLevel, SourceBundle
from evaluator.errors import EvaluatorError
from evaluator.hardware.profiles import Profile
from evaluator.host.building.builder import Built
from evaluator.host.hangs import flight_recorder, stacks
from evaluator.host.hangs.incidents import EvaluationCancelled, GangTrouble, Incident, IncidentKind, Observation
from evaluator.host.machine import nvml
from evaluator.host.process import procfs
from evaluator.host.process.logs import LogDrain, clean
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.channel import Channel, ChannelViolation
from evaluator.host.ranks.stall import StallWatch
from evaluator.host.ranks.worker import WATCH_S, HeldRank
from evaluator.host.sandbox import bubblewrap
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.sandbox.cpu_sets import Shares
from evaluator.host.settings import JudgeSettings

logger = logging.getLogger(__name__)

_POLL_S = 0.1
_CLEAN_S = 30.0
_STACK_S = 2.0
_PRINTED_S = 0.1
"""Native stacks of which nothing more has come for so long are complete."""
_MARKER = "PKB_GANG"


@dataclass(frozen=True, kw_only=True)
class GangPlan:
    """What every gang of a slot has in common."""

    profile: Profile
    settings: JudgeSettings
    confinement: Confinement
    shares: Shares
    gpus: tuple[int, ...] = ()


@dataclass
class _Ends:
    """Descriptors that the child inherits and the host closes after the start."""

    inherited: list[int] = field(default_factory=list)

    def close(self) -> None:
        for descriptor in self.inherited:
            os.close(descriptor)
        self.inherited.clear()


class Gang:
    """One-shot: it sees one submission, then it is ended. Not thread-safe."""

    def __init__(self, plan: GangPlan, *, spawner: Spawner, work_dir: Path) -> None:
        """Start the sandbox; it gets ready in the background. Raises EvaluatorError where it cannot be started."""
        self.plan = plan
        self.started_at = time.monotonic()
        self._private = Path(tempfile.mkdtemp(prefix="gang-", dir=work_dir))
        # Ranks run as nobody inside; the directory's own mode must let them pass.
        self._private.chmod(0o755)
        bubblewrap.write_private(self._private)
        self._layout = bubblewrap.layout(plan.confinement, private=self._private)
        self._marker = f"{_MARKER}={self._private.name}"
        self._group = bubblewrap.new_group(plan.confinement, plan.settings, shares=plan.shares, name=self._private.name)
        self._namespace: str | None = None
        self._namespace_held: int | None = None
        self._is_ready = False
        self._incidents: list[Incident] = []
        self._ranks: list[HeldRank] = []
        ends = _Ends()
        try:
            self._start(ends, spawner)
        except OSError as error:
            raise EvaluatorError(f"a gang could not be started: {error}") from error
        finally:
            ends.close()

    def _start(self, ends: _Ends, spawner: Spawner) -> None:
        world_size = self.plan.profile.world_size
        barrier = _memory_file("barrier", protocol.BARRIER_BYTES)
        exits_host, exits_child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        exits_number = exits_child.detach()
        ends.inherited += [barrier, exits_number]
        self._exits = exits_host
        pipes, described = [], []
        for number in range(world_size):
            host_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            diary = _memory_file("diary", protocol.DIARY_BYTES)
            log_read, log_write = os.pipe()
            pipes.append(log_read)
            self._ranks.append(HeldRank(number=number, channel=Channel(host_end), diary=diary))
            child = child_end.detach()
            ends.inherited += [child, log_write]
            described.append({"rank": number, "channel": child, "diary": diary, "log": log_write, "barrier": barrier})
        self._drain = LogDrain(pipes, limit=self.plan.settings.log_bytes)
        self._launcher_log = os.memfd_create("launcher", os.MFD_CLOEXEC)
        is_confined = self.plan.confinement.level is not SandboxLevel.NONE
        call_filter = bubblewrap.open_filter() if is_confined else None
        if call_filter is not None:
            ends.inherited.append(call_filter)
        command = bubblewrap.command(
            self.plan.confinement,
            [self._layout.launcher, json.dumps(self._orders(described, exits=exits_number))],
            private=self._private,
            profile=self.plan.profile,
            settings=self.plan.settings,
            gpus=self.plan.gpus,
            call_filter=call_filter,
            group=self._group,
        )
        self._process = spawner.start(
            command,
            descriptors=[*ends.inherited, *(rank.diary for rank in self._ranks)],
            environment=self._environment(),
            error_output=self._launcher_log,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._exits, selectors.EVENT_READ, None)
        for rank in self._ranks:
            self._selector.register(rank.channel, selectors.EVENT_READ, rank)

    def _orders(self, described: list[dict[str, int]], *, exits: int) -> dict[str, object]:
        profile, settings, shares = self.plan.profile, self.plan.settings, self.plan.shares
        return {
            "ranks": described,
            "exits": exits,
            "world_size": profile.world_size,
            "device": profile.device,
            "process_group": profile.process_group,
            "threads": shares.threads(shares.sandbox, world_size=profile.world_size),
            "cores": shares.sandbox,
            "attentive_s": shares.attentive_s,
            "source": self._layout.source,
            "store": self._layout.store,
            "compat": self._layout.compat,
            "limits": {
                "file_bytes": settings.file_bytes,
                "open_files": settings.open_files,
                # A CUDA context reserves far more address space than it uses, so no such limit there.
                "data_bytes": 0
                if profile.device == "cuda"
                else bubblewrap.memory_limit(settings) // profile.world_size,
            },
        }

    def _environment(self) -> dict[str, str]:
        if self.plan.confinement.level is not SandboxLevel.NONE:
            return {}
        home = self._private / "home"
        home.mkdir()
        name, _, value = self._marker.partition("=")
        own = {name: value, "PKB_BUILT": str(self._private / "built"), "PKB_EXTENSION_CACHE": str(home / "extensions")}
        return bubblewrap.environment(self.plan.profile, home=str(home)) | own

    # ---- the conversation -------------------------------------------------------------------------------------

    def wait_until_ready(self, *, cancelled: Callable[[], bool]) -> None:
        """Return once every rank has formed the process group; at once where that has been seen before.

        Raises:
            EvaluatorError: it did not come to that, or a rank has ended since; no submission was involved.
        """
        if self._is_ready:
            if not self.is_alive:
                raise EvaluatorError(f"a sandbox rank ended before it had a submission. {self._launcher_text()}")
            return
        try:
            self._collect("starting", seconds=self.plan.settings.start_s, cancelled=cancelled)
        except GangTrouble as trouble:
            texts = [text for seen in trouble.observations for text in (seen.error, seen.log) if text]
            raise EvaluatorError(
                f"the sandbox ranks did not start: {trouble} {self._launcher_text()} {texts}"
            ) from trouble
        self._hold_namespace()
        self._is_ready = True

    def _hold_namespace(self) -> None:
        """Remember the sandbox's PID namespace, and keep it open: a freed number is given to the next sandbox."""
        pid = self._ranks[0].pid
        if pid is None or self.plan.confinement.level is SandboxLevel.NONE:
            return
        try:
            self._namespace_held = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise EvaluatorError(f"the sandbox's process namespace cannot be watched: {error}") from error
        self._namespace = procfs.namespace_of(pid)

    def reveal(self, bundle: SourceBundle, *, built: Built | None = None) -> None:
        """Put the submission, and what was built of it, where the ranks can read it; nothing was there before."""
        root = self._private / "source"
        for file in bundle.files:
            path = root / file.path
            if not path.resolve().is_relative_to(root.resolve()):
                raise EvaluatorError(f"the submission's path {file.path!r} leads outside")
            bubblewrap.readable_file(path, file.text)
        if built is not None:
            built.place(self._private / "built")

    def import_submission(self, *, seconds: float, cancelled: Callable[[], bool]) -> None:
        """Let every rank import solution.py; raises GangTrouble."""
        self._ask([(Command(kind=CommandKind.IMPORT), ())] * len(self._ranks))
        self._collect("importing solution.py", seconds=seconds, cancelled=cancelled)

    def load(
        self,
        call: int,
        slots: Sequence[Sequence[int]],
        *,
        reuse: bool,
        seconds: float,
        cancelled: Callable[[], bool],
        held: bool = False,
    ) -> None:
        """Hand every rank the files (and new device memory) of `call`, `held` for a burst; raises GangTrouble."""
        self._ask([(Command(kind=CommandKind.LOAD, call=call, reuse=reuse, held=held), slot) for slot in slots])
        self._collect(f"loading call {call}", seconds=seconds, cancelled=cancelled)

    def go(
        self,
        call: int,
        *,
        delays_us: Sequence[int] | None = None,
        count: bool = False,
        audits: Sequence[int] = (),
        seconds: float,
        cancelled: Callable[[], bool],
    ) -> list[Report]:
        """Run `call` on every rank and return what they claim; raises GangTrouble.

        Each rank starts after its delay, and counts the library collectives in the call where it is told to. With
        `audits`, one file per rank, it records there what runs in the call.
        """
        delays_us = delays_us or [0] * len(self._ranks)
        files: list[tuple[int, ...]] = [(file,) for file in audits] or [()] * len(self._ranks)
        self._ask(
            [
                (Command(kind=CommandKind.GO, call=call, delay_us=delay, count=count), file)
                for delay, file in zip(delays_us, files, strict=True)
            ]
        )
        reports = self._collect(f"call {call}", seconds=seconds, cancelled=cancelled)
        for rank in self._ranks:
            rank.calls_done += 1
        return reports

    def store(self, call: int, files: Sequence[int], *, seconds: float, cancelled: Callable[[], bool]) -> None:
        """Have every rank store what it returned in `call` once more, as it is now; raises GangTrouble."""
        self._ask([(Command(kind=CommandKind.STORE, call=call), (file,)) for file in files])
        self._collect(f"call {call} (what it returned, once more)", seconds=seconds, cancelled=cancelled)

    def _ask(self, commands: Sequence[tuple[Command, Sequence[int]]]) -> None:
        for rank, (command, descriptors) in zip(self._ranks, commands, strict=True):
            # A rank that has gone is noticed, with its reason, when the answers are collected.
            with contextlib.suppress(OSError):
                rank.channel.send(command, descriptors)

    def _collect(self, doing: str, *, seconds: float, cancelled: Callable[[], bool]) -> list[Report]:
        """One answer from every rank, or GangTrouble with everything that is known."""
        reports: dict[int, Report] = {}
        start = time.monotonic()
        deadline = start + seconds
        watch = self._stall_watch(start)
        while len(reports) < len(self._ranks) or self._incidents:
            if cancelled():
                raise EvaluationCancelled("the evaluation was cancelled")
            now = time.monotonic()
            if now >= deadline or (self._incidents and self._is_all_known(reports)):
                break
            is_awake = self._is_ready and now - start < self.plan.shares.attentive_s
            for key, _ in self._selector.select(0 if is_awake else min(_POLL_S, deadline - now)):
                self._hear(key.data, reports)
            self._look_at_sandbox()
            if watch is not None and not self._incidents:
                silent = [rank for rank in self._ranks if rank.number not in reports and self._is_alive(rank)]
                if watch.stands_still(time.monotonic(), silent):
                    seconds = time.monotonic() - start
                    self._note(IncidentKind.STALLED, None)
                    break
            if self._incidents:
                # Others may be about to report the same cause, or its consequences; a moment for them, no more.
                deadline = min(deadline, self._incidents[0].at + self.plan.settings.grace_s)
        if len(reports) == len(self._ranks) and not self._incidents:
            return [reports[rank.number] for rank in self._ranks]
        raise self._trouble(doing, reports, seconds)

    def _stall_watch(self, start: float) -> StallWatch | None:
        """On CPU ranks; a rank that waits for a GPU keeps the processor busy, and the deadline has to tell."""
        if self.plan.profile.device != "cpu":
            return None
        return StallWatch(
            members=self._members(),
            dump=self._dump_stacks,
            source=self._layout.source,
            start=start,
            patience_s=self.plan.settings.stall_s,
        )

    def _is_all_known(self, reports: dict[int, Report]) -> bool:
        """Whether every rank has answered, failed or ended with a status."""
        return all(
            rank.number in reports or rank.failure is not None or rank.status is not None for rank in self._ranks
        )

    def _hear(self, rank: HeldRank | None, reports: dict[int, Report]) -> None:
        if rank is None:
            self._hear_exit()
            return
        packet, pid = rank.channel.receive()
        rank.answered_at_ns = time.monotonic_ns()
        if not packet:
            rank.is_closed = True
            self._selector.unregister(rank.channel)
            self._note(IncidentKind.CLOSED, rank.number)
            return
        rank.pid = rank.pid or pid
        try:
            report = rank.channel.expectation.accept(packet)
        except ChannelViolation as violation:
            self._note(IncidentKind.VIOLATION, rank.number, text=str(violation))
            return
        if report.kind is ReportKind.FAILED:
            rank.failure = _failure_of(report)
            self._note(IncidentKind.FAILED, rank.number, failure=rank.failure, text=rank.text)
        else:
            reports[rank.number] = report

    def _hear_exits(self) -> None:
        """Note every end of a rank that the launcher has told of by now."""
        while any(key.data is None for key, _ in self._selector.select(0)):
            self._hear_exit()

    def _hear_exit(self) -> None:
        packet = self._exits.recv(protocol.EXIT.size + 1)
        if not packet:
            self._selector.unregister(self._exits)
            return
        if len(packet) != protocol.EXIT.size:
            return
        _magic, number, status = protocol.EXIT.unpack(packet)
        if number < len(self._ranks):
            self._ranks[number].status = status
            self._note(IncidentKind.EXITED, number, status=status)

    def _look_at_sandbox(self) -> None:
        has_ended = self._process.poll() is not None
        known = any(incident.kind is IncidentKind.SANDBOX_ENDED for incident in self._incidents)
        if has_ended and not known:
            self._hear_exits()
            if any(rank.status is None for rank in self._ranks):
                self._note(IncidentKind.SANDBOX_ENDED, None, text=self._launcher_text())

    def _note(
        self,
        kind: IncidentKind,
        rank: int | None,
        *,
        failure: Failure | None = None,
        status: int | None = None,
        text: str = "",
    ) -> None:
        incident = Incident(kind=kind, at=time.monotonic(), rank=rank, failure=failure, status=status, text=text)
        self._incidents.append(incident)

    @property
    def answered_at_ns(self) -> tuple[int, ...]:
        """When each rank last answered, on the monotonic clock."""
        return tuple(rank.answered_at_ns for rank in self._ranks)

    @property
    def folder(self) -> str:
        """The name of this gang's private folder in the work directory."""
        return self._private.name

    @property
    def processes(self) -> list[int]:
        """Everything that descends from what started the sandbox; complete while no submission is in it."""
        return procfs.descendants(self._process.pid)

    def count_processes(self) -> int:
        """How many processes the sandbox has now."""
        return len(self._members()())

    def busy_ns(self) -> int:
        """Processor time that everything in the sandbox has used so far.

        Without a control group that counts it, in steps of a clock tick, and without processes that have ended unless
        what started them waited for them.
        """
        used_ns = self._group.used_ns if self._group is not None else None
        if used_ns is not None:
            return used_ns
        ticks = sum(procfs.ticks_with_children(pid) for pid in self._members()())
        return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")

    # ---- what the ranks are doing -----------------------------------------------------------------------------

    def _trouble(self, doing: str, reports: dict[int, Report], limit_s: float) -> GangTrouble:
        if not self._incidents:
            self._note(IncidentKind.OVERDUE, None)
        self._look_at_memory()
        observations = self.observe(answered=frozenset(reports))
        if self._incidents[0].kind in (IncidentKind.OVERDUE, IncidentKind.STALLED):
            observations = self._with_native_stacks(self._with_gpus(observations), answered=frozenset(reports))
        return GangTrouble(tuple(self._incidents), observations, doing=doing, limit_s=limit_s)

    def _with_gpus(self, observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """Say of each rank how busy its GPU is: one that spins on a flag shows 100 %, one that waits for data 0."""
        busy = {state.index: state.busy_percent for state in nvml.read(self.plan.gpus)}
        by_rank = {rank: busy[gpu] for rank, gpu in enumerate(self.plan.gpus) if gpu in busy}
        return tuple(
            dataclasses.replace(seen, place=f"{seen.place} (its GPU {by_rank[seen.rank]} % busy)")
            if seen.rank in by_rank
            else seen
            for seen in observations
        )

    def _look_at_memory(self) -> None:
        """Note where the kernel ended a rank, or all of the sandbox, because the group's memory was used up."""
        killed = next((rank.number for rank in self._ranks if rank.was_killed), None)
        has_ended = any(incident.kind is IncidentKind.SANDBOX_ENDED for incident in self._incidents)
        if self._group is not None and self._group.memory_kills and (killed is not None or has_ended):
            limit = bubblewrap.memory_limit(self.plan.settings)
            self._note(IncidentKind.MEMORY, killed, text=f"{limit / 1e9:.1f} GB for all ranks together")

    def _with_native_stacks(
        self, observations: tuple[Observation, ...], *, answered: frozenset[int]
    ) -> tuple[Observation, ...]:
        """Have the silent ranks print their native stacks; this may end them, but the evaluation is over anyway."""
        silent = [rank for rank in self._ranks if rank.number not in answered and self._is_alive(rank)]
        for rank in silent:
            self._drain.keepers[rank.number].set_aside()
            _signal(rank, signal.SIGINT)
        deadline = time.monotonic() + _STACK_S
        before: list[int] = []
        while time.monotonic() < deadline:
            time.sleep(_PRINTED_S)
            lengths = [len(self._drain.keepers[rank.number].aside) for rank in silent]
            if all(lengths) and lengths == before:
                break
            before = lengths
        native = {rank.number: stacks.native(self._drain.keepers[rank.number].aside) for rank in silent}
        return tuple(
            dataclasses.replace(seen, stack=f"{seen.stack or ''}\n\nNative stacks:\n{native[seen.rank]}".lstrip())
            if native.get(seen.rank)
            else seen
            for seen in observations
        )

    def observe(self, *, answered: frozenset[int] = frozenset()) -> tuple[Observation, ...]:
        """Every rank's state now; ranks that have not `answered` are asked for their stacks."""
        silent = [rank for rank in self._ranks if rank.number not in answered and self._is_alive(rank)]
        before = {rank.number: rank.ticks for rank in silent}
        asked = self._ask_for_collectives() if silent else []
        self._dump_stacks([rank for rank in silent if rank.failure is None], asked=asked)
        return tuple(
            self._observe_rank(rank, is_answered=rank.number in answered, ticks=before.get(rank.number))
            for rank in self._ranks
        )

    @property
    def is_alive(self) -> bool:
        """Whether the sandbox still runs, with every rank."""
        self._hear_exits()
        return self._process.poll() is None and all(rank.status is None for rank in self._ranks)

    @property
    def is_ready(self) -> bool:
        """Whether its ranks were heard to have formed their process group."""
        return self._is_ready

    def observe_finished(self) -> tuple[Observation, ...]:
        """Every rank's state at the end of a series of calls that all were answered."""
        return self.observe(answered=frozenset(rank.number for rank in self._ranks))

    def _is_alive(self, rank: HeldRank) -> bool:
        return rank.pid is not None and rank.status is None and self._process.poll() is None

    def _dump_stacks(self, ranks: Sequence[HeldRank], *, asked: Sequence[HeldRank] = ()) -> None:
        """Signal the ranks and wait until their stacks have arrived, or for a moment at most.

        Those that were `asked` for their collectives are waited for as well.
        """
        if not ranks:
            return
        start = time.monotonic()
        for rank in ranks:
            rank.forget_stack()
            _signal(rank, signal.SIGUSR1)
        # The wait has a least length too: over it the ranks' use of the processor is measured.
        while (now := time.monotonic()) < start + WATCH_S or (
            now < start + _STACK_S
            and not (all(rank.stack for rank in ranks) and all(rank.has_noted_collectives for rank in asked))
        ):
            time.sleep(0.02)

    def _ask_for_collectives(self) -> list[HeldRank]:
        """Have every rank note its collectives, and return those asked; they answer while stacks are waited for."""
        asked = [rank for rank in self._ranks if self._is_alive(rank)]
        for rank in asked:
            rank.forget_collectives()
            _signal(rank, protocol.FLIGHT_SIGNAL)
        return asked

    def _observe_rank(self, rank: HeldRank, *, is_answered: bool, ticks: int | None) -> Observation:
        source = self._layout.source
        standing, place = rank.place(is_answered=is_answered, source=source, ticks_before=ticks)
        collectives = rank.collectives
        if said := flight_recorder.words(collectives, world_size=len(self._ranks)):
            place = f"{place} ({said})"
        return Observation(
            rank=rank.number,
            standing=standing,
            place=place,
            calls_done=rank.calls_done,
            exit=rank.exit_words,
            error=rank.text if rank.failure is not None else None,
            stack=rank.stack or None,
            log=self._drain.keepers[rank.number].text(),
            collectives=collectives,
        )

    def _launcher_text(self) -> str:
        return clean(os.pread(self._launcher_log, 4096, 0).decode("utf-8", "replace"))

    # ---- the end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Kill whatever is left of the gang, see that nothing stays, and free what the host held.

        Raises:
            EvaluatorError: a process of the gang is still there.
        """
        try:
            self._kill()
        finally:
            self._selector.close()
            self._exits.close()
            self._drain.close()
            for rank in self._ranks:
                rank.channel.close()
                os.close(rank.diary)
            os.close(self._launcher_log)
            if self._namespace_held is not None:
                os.close(self._namespace_held)
            shutil.rmtree(self._private, ignore_errors=True)

    def _kill(self) -> None:
        members = self._members()
        # The others first: the outermost process then reaps the sandbox's own first process, and ends by itself.
        for pid in set(members()) - {self._process.pid}:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            self._process.wait(timeout=1.0 if self._namespace else 0.0)
        except subprocess.TimeoutExpired:
            # The process group, not the process: in its first moments bubblewrap has a child that would outlive it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=_CLEAN_S)
        if self._group is not None:
            self._group.kill()  # whoever was born meanwhile
        procfs.wait_until_gone(members, seconds=_CLEAN_S)
        if self._group is not None:
            self._group.remove()

    def _members(self) -> Callable[[], list[int]]:
        """How to list every process of this gang, wherever it has gone."""
        group = self._group
        if group is not None:
            by_namespace = self._members_by_mark()
            return lambda: sorted({*group.members, *by_namespace()})
        return self._members_by_mark()

    def _members_by_mark(self) -> Callable[[], list[int]]:
        """The same without a control group: by the sandbox's namespace, or by a variable of their environment."""
        if self.plan.confinement.level is SandboxLevel.NONE:
            marker = self._marker.encode()
            return lambda: procfs.members_with_variable(marker)
        namespace = self._namespace
        if namespace is None or namespace == procfs.namespace_of(os.getpid()):
            return list
        return lambda: procfs.members_of_namespace(namespace)


def _signal(rank: HeldRank, number: int) -> None:
    """Send a question by signal; a rank that has gone cannot answer, and one that may not be asked is our fault."""
    if rank.pid is None:
        return
    try:
        os.kill(rank.pid, number)
    except ProcessLookupError:
        logger.debug("rank %d (process %d) has gone", rank.number, rank.pid)
    except OSError as error:
        logger.warning("rank %d (process %d) cannot be asked where it stands: %s", rank.number, rank.pid, error)


def _memory_file(name: str, size: int) -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def _failure_of(report: Report) -> Failure:
    try:
        return Failure(report.detail)
    except ValueError:
        return Failure.RAISED
