"""Commands to workers and their answers: one command each, one answer each, and every incident instead."""

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluator.arena import protocol
from evaluator.arena.protocol import Command, Failure, Report, ReportKind
from evaluator.host.hangs.incidents import EvaluationCancelled, Incident, IncidentKind
from evaluator.host.ranks.channel import ChannelViolation
from evaluator.host.ranks.worker import Worker

_POLL_S = 0.1

StandsStill = Callable[[float, frozenset[int]], bool]
"""Whether the workers wait for each other, given the time and who has answered."""


def never_stands_still(_now: float, _answered: frozenset[int]) -> bool:
    """Never: for ranks whose waits cannot be observed."""
    return False


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers to a command: the report of each worker that gave one, and whether all did without an incident.

    `waited_s` is how long the host waited: the limit, or less where they waited for each other.
    """

    reports: dict[int, Report]
    is_complete: bool
    waited_s: float


class Conversation:
    """The host's side of all channels of one sandbox, and of the socket on which its launcher reports exits.

    Args:
        workers: all of them, in order.
        exits: the launcher's socket; its creator closes it.
        have_ended: whether the sandbox has ended.
        launcher_text: what its launcher printed.
        grace_s: how long to wait for the other workers after the first incident.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        exits: socket.socket,
        *,
        have_ended: Callable[[], bool],
        launcher_text: Callable[[], str],
        grace_s: float,
    ) -> None:
        self._workers = workers
        self._exits = exits
        self._have_ended = have_ended
        self._launcher_text = launcher_text
        self._grace_s = grace_s
        self._incidents: list[Incident] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(exits, selectors.EVENT_READ, None)
        for worker in workers:
            self._selector.register(worker.channel, selectors.EVENT_READ, worker)

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """All incidents, in the order of time."""
        return tuple(self._incidents)

    def has_noted(self, kind: IncidentKind) -> bool:
        """Whether an incident of this kind was noted."""
        return any(incident.kind is kind for incident in self._incidents)

    def note(
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
        self._incidents.append(incident)

    def ask(self, commands: Sequence[tuple[Command, Sequence[int]]]) -> None:
        """Send every worker its command, with descriptors."""
        for worker, (command, descriptors) in zip(self._workers, commands, strict=True):
            # `collect` notices a rank that has gone, with the reason.
            with contextlib.suppress(OSError):
                worker.channel.send(command, descriptors)

    def collect(
        self,
        *,
        seconds: float,
        busy_poll_s: float = 0.0,
        stands_still: StandsStill = never_stands_still,
        cancelled: Callable[[], bool],
    ) -> Answers:
        """One answer from every worker, or what came instead within `seconds`.

        For the first `busy_poll_s` seconds the channels are polled without sleeping.

        Raises:
            EvaluationCancelled: `cancelled()` became true.
        """
        reports: dict[int, Report] = {}
        start = time.monotonic()
        deadline = start + seconds
        while not self._is_complete(reports):
            if cancelled():
                raise EvaluationCancelled("the evaluation was cancelled")
            now = time.monotonic()
            if now >= deadline or self._is_all_known(reports):
                break
            self._listen(reports, wait_s=0 if now - start < busy_poll_s else min(_POLL_S, deadline - now))
            if not self._incidents and stands_still(time.monotonic(), frozenset(reports)):
                seconds = time.monotonic() - start
                self.note(IncidentKind.STALLED)
                break
            if self._incidents:
                # Give the others a moment to report the same cause, or its consequences.
                deadline = min(deadline, self._incidents[0].at + self._grace_s)
        return Answers(reports=reports, is_complete=self._is_complete(reports), waited_s=seconds)

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
        return len(reports) == len(self._workers) and not self._incidents

    def _is_all_known(self, reports: dict[int, Report]) -> bool:
        """After an incident: whether every rank has answered, failed or ended with a status."""
        return bool(self._incidents) and all(
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
        self._look_at_sandbox()

    def _hear(self, worker: Worker, reports: dict[int, Report]) -> None:
        packet, pid = worker.channel.receive()
        worker.answered_at_ns = time.monotonic_ns()
        if not packet:
            worker.is_closed = True
            self._selector.unregister(worker.channel)
            self.note(IncidentKind.CLOSED, worker.number)
            return
        worker.pid = worker.pid or pid
        try:
            report = worker.channel.expectation.accept(packet)
        except ChannelViolation as violation:
            self.note(IncidentKind.VIOLATION, worker.number, text=str(violation))
            return
        if report.kind is ReportKind.FAILED:
            worker.failure = Failure(report.detail)
            self.note(IncidentKind.FAILED, worker.number, failure=worker.failure, text=worker.text)
        else:
            reports[worker.number] = report

    def _hear_exit(self) -> None:
        try:
            packet = self._exits.recv(protocol.EXIT.size + 1)
        except ConnectionError:  # the launcher has ended before it read that its ranks may start
            packet = b""
        if not packet:
            self._selector.unregister(self._exits)
            return
        if len(packet) != protocol.EXIT.size:
            return
        _magic, number, status = protocol.EXIT.unpack(packet)
        if number < len(self._workers):
            self._workers[number].status = status
            self.note(IncidentKind.EXITED, number, status=status)

    def _look_at_sandbox(self) -> None:
        if self._have_ended() and not self.has_noted(IncidentKind.SANDBOX_ENDED):
            self.hear_exits()
            if any(worker.status is None for worker in self._workers):
                self.note(IncidentKind.SANDBOX_ENDED, text=self._launcher_text())
