"""What the ranks of a worker group answer: one answer each to one command each, or what came instead."""

import contextlib
import selectors
import time
from collections.abc import Callable, Sequence

from evaluator.arena import protocol
from evaluator.arena.protocol import Command, Failure, Report, ReportKind
from evaluator.errors import Cancelled
from evaluator.host.hangs.incidents import Incident, IncidentKind, WorkerGroupFailure
from evaluator.host.ranks.channel import ChannelViolation
from evaluator.host.ranks.observer import Observer, StallWatch
from evaluator.host.ranks.rank_sandbox import RankSandbox
from evaluator.host.ranks.worker import Worker

_POLL_S = 0.1


class Answers:
    """The host's side of all channels of one sandbox, and of the socket on which its launcher reports exits.

    Args:
        workers: all of them, in order; their channels are closed with this.
        sandbox: in which they run.
        observer: looks at them from outside where an answer is missing.

    Attributes:
        incidents: all of them, in the order of time.
    """

    def __init__(self, workers: Sequence[Worker], sandbox: RankSandbox, observer: Observer) -> None:
        self._workers = workers
        self._sandbox = sandbox
        self._observer = observer
        self.incidents: list[Incident] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(sandbox.exits, selectors.EVENT_READ, None)
        for worker in workers:
            self._selector.register(worker.channel, selectors.EVENT_READ, worker)

    def ask(self, commands: Sequence[Command], files: Sequence[Sequence[int]]) -> None:
        """Send every worker its command, with the descriptors of its files."""
        for worker, command, descriptors in zip(self._workers, commands, files, strict=True):
            # `collect` notices a rank that has gone, with the reason.
            with contextlib.suppress(OSError):
                worker.channel.send(command, descriptors)

    def collect(
        self, doing: str, *, seconds: float, busy_poll_s: float = 0.0, cancelled: Callable[[], bool]
    ) -> list[Report]:
        """One answer from every worker, in order, to what they are `doing`; raises WorkerGroupFailure and Cancelled.

        For `busy_poll_s` the channels are polled without sleeping.
        """
        reports: dict[int, Report] = {}
        start = now = time.monotonic()
        deadline, stall = start + seconds, StallWatch.of(self._sandbox, self._observer, start=start)
        while not self._is_complete(reports):
            if cancelled():
                raise Cancelled("the evaluation was cancelled")
            now = time.monotonic()
            if now >= deadline or self._is_all_known(reports):
                break
            self._listen(reports, wait_s=0 if now - start < busy_poll_s else min(_POLL_S, deadline - now))
            if self.incidents:
                # Give the others a moment to report the same cause, or its consequences.
                deadline = min(deadline, self.incidents[0].at + self._sandbox.resources.settings.grace_s)
            elif stall is not None and stall.is_deadlocked(time.monotonic(), answered=frozenset(reports)):
                seconds = time.monotonic() - start
                self._note(IncidentKind.STALLED)
                break
        if not self._is_complete(reports):
            raise self._failure(doing, frozenset(reports), waited_s=seconds)
        return [reports[worker.number] for worker in self._workers]

    def hear_exits(self) -> None:
        """Note every exit that the launcher has reported."""
        while any(key.data is None for key, _ in self._selector.select(0)):
            self._hear_exit()

    def close(self) -> None:
        """Close what the host holds of all workers."""
        self._selector.close()
        for worker in self._workers:
            worker.close()

    def _is_complete(self, reports: dict[int, Report]) -> bool:
        return len(reports) == len(self._workers) and not self.incidents

    def _is_all_known(self, reports: dict[int, Report]) -> bool:
        """After an incident: whether every rank has answered, failed or ended with a status."""
        return bool(self.incidents) and all(
            worker.number in reports or worker.failure is not None or worker.status is not None
            for worker in self._workers
        )

    def _listen(self, reports: dict[int, Report], *, wait_s: float) -> None:
        """Receive what comes within `wait_s`, and check that the sandbox still runs."""
        for key, _ in self._selector.select(wait_s):
            if key.data is None:
                self._hear_exit()
            else:
                self._hear(key.data, reports)
        if self._sandbox.processes.have_ended and not self._has_noted(IncidentKind.SANDBOX_ENDED):
            self.hear_exits()
            if any(worker.status is None for worker in self._workers):
                self._note(IncidentKind.SANDBOX_ENDED, text=self._sandbox.launcher_text)

    def _hear(self, worker: Worker, reports: dict[int, Report]) -> None:
        packet, pid = worker.channel.receive()
        worker.answered_at_ns = time.monotonic_ns()
        if not packet:
            worker.is_closed = True
            self._selector.unregister(worker.channel)
            self._note(IncidentKind.CLOSED, worker.number)
            return
        worker.pid = worker.pid or pid
        try:
            report = worker.channel.expectation.accept(packet)
        except ChannelViolation as violation:
            self._note(IncidentKind.VIOLATION, worker.number, text=str(violation))
            return
        if report.kind is ReportKind.FAILED:
            worker.failure = Failure(report.detail)
            self._note(IncidentKind.FAILED, worker.number, failure=worker.failure, text=worker.text)
        else:
            reports[worker.number] = report

    def _hear_exit(self) -> None:
        exits = self._sandbox.exits
        try:
            packet = exits.recv(protocol.EXIT.size + 1)
        except ConnectionError:  # the launcher has ended before it read that its ranks may start
            packet = b""
        if not packet:
            self._selector.unregister(exits)
            return
        if len(packet) != protocol.EXIT.size:
            return
        _magic, number, status = protocol.EXIT.unpack(packet)
        if number < len(self._workers):
            self._workers[number].status = status
            self._note(IncidentKind.EXITED, number, status=status)

    def _failure(self, doing: str, answered: frozenset[int], *, waited_s: float) -> WorkerGroupFailure:
        if not self.incidents:
            self._note(IncidentKind.OVERDUE)
        self._look_at_memory()
        is_hang = self.incidents[0].kind in (IncidentKind.OVERDUE, IncidentKind.STALLED)
        observe = self._observer.observe_hang if is_hang else self._observer.observe
        return WorkerGroupFailure(tuple(self.incidents), observe(answered=answered), doing=doing, limit_s=waited_s)

    def _look_at_memory(self) -> None:
        """Note where the kernel ended a rank, or all of the sandbox, because the group had no memory left."""
        killed = next((worker.number for worker in self._workers if worker.may_have_been_killed), None)
        has_ended = self._has_noted(IncidentKind.SANDBOX_ENDED)
        if (killed is not None or has_ended) and self._sandbox.processes.memory_kills:
            text = f"{self._sandbox.memory_limit / 1e9:.1f} GB for all ranks together"
            self._note(IncidentKind.MEMORY, killed, text=text)

    def _has_noted(self, kind: IncidentKind) -> bool:
        return any(incident.kind is kind for incident in self.incidents)

    def _note(
        self,
        kind: IncidentKind,
        rank: int | None = None,
        *,
        failure: Failure | None = None,
        status: int | None = None,
        text: str = "",
    ) -> None:
        """Note an incident as of now."""
        incident = Incident(kind=kind, at=time.monotonic(), rank=rank, failure=failure, status=status, text=text)
        self.incidents.append(incident)
