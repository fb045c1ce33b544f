"""One rank's reports, parsed strictly: the record that the open command expects, or evidence of tampering."""

import select
import socket
from collections.abc import Sequence

from evaluator.arena.protocol import Command, CommandKind, Failure, Report, ReportKind

_ANSWERS = {
    CommandKind.IMPORT: ReportKind.IMPORTED,
    CommandKind.LOAD: ReportKind.LOADED,
    CommandKind.GO: ReportKind.DONE,
    CommandKind.STORE: ReportKind.STORED,
    CommandKind.BARE: ReportKind.DONE,
    CommandKind.LOOP: ReportKind.LOOPED,
    CommandKind.RECORD: ReportKind.RECORDING,
}
_FAILURES = {
    ReportKind.READY: frozenset({Failure.START}),
    ReportKind.IMPORTED: frozenset({Failure.IMPORT, Failure.ENTRY}),
    ReportKind.DONE: frozenset({Failure.RAISED, Failure.OUT_OF_MEMORY}),
    ReportKind.LOOPED: frozenset({Failure.RAISED, Failure.OUT_OF_MEMORY}),
}
"""The failures that the shim may report instead of each answer. With a submission in it, none of them is ours."""

_LONGEST_PACKET = 4096


class ChannelViolation(Exception):
    """A rank sent what the shim never sends: malformed, repeated, early or for another call."""


class Expectation:
    """What a rank may send next. Without an open command it may send nothing."""

    def __init__(self) -> None:
        self._answer: ReportKind | None = ReportKind.READY
        self._call = 0

    @property
    def is_open(self) -> bool:
        """Whether an answer is outstanding."""
        return self._answer is not None

    def ask(self, command: Command) -> None:
        """Note that `command` is about to be sent."""
        self._answer = _ANSWERS[command.kind]
        self._call = command.call

    def accept(self, packet: bytes) -> Report:
        """The report in `packet`.

        Raises:
            ChannelViolation: this report may not come now.
        """
        try:
            report = Report.unpack(packet)
        except ValueError as error:
            raise ChannelViolation(f"malformed record: {error}") from error
        if self._answer is None:
            raise ChannelViolation(f"an unexpected record {report.kind.name}")
        if report.kind not in (self._answer, ReportKind.FAILED) or report.call != self._call:
            raise ChannelViolation(
                f"a record {report.kind.name} for call {report.call}, not {self._answer.name} for call {self._call} "
                "was due"
            )
        if report.kind is ReportKind.FAILED and report.detail not in _FAILURES.get(self._answer, ()):
            raise ChannelViolation(f"a failure {report.detail}, expected {self._answer.name}")
        self._answer = None
        return report


class Channel:
    """The host's end of one rank's socket.

    Attributes:
        left_unread: whether the rank's end was closed before the rank had read the last command. The kernel says so.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.left_unread = False
        self.expectation = Expectation()
        end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        end.settimeout(5.0)

    def fileno(self) -> int:
        """The descriptor, for a selector."""
        return self.socket.fileno()

    @property
    def has_hung_up(self) -> bool:
        """Whether no process has the rank's end any more, whatever it sent before."""
        poller = select.poll()
        poller.register(self.socket, 0)
        return any(event & select.POLLHUP for _, event in poller.poll(0))

    def send(self, command: Command, descriptors: Sequence[int] = ()) -> None:
        """Send one command; raises OSError where the rank has gone."""
        self.expectation.ask(command)
        try:
            socket.send_fds(self.socket, [command.pack()], list(descriptors))
        except ConnectionError:
            self.left_unread = True
            raise

    def receive(self) -> tuple[bytes, int | None]:
        """One packet (empty once the rank has closed its end) and the sender's process id, from the kernel.

        Descriptors that a rank may try to hand over do not fit the space for ancillary data; the kernel drops them.
        """
        try:
            packet, ancillary, _flags, _address = self.socket.recvmsg(_LONGEST_PACKET, socket.CMSG_LEN(12))
        except ConnectionError:
            # The kernel tells an end that was closed with messages in its queue from any other.
            self.left_unread = True
            return b"", None
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                return packet, int.from_bytes(data[:4], "little")
        return packet, None

    def close(self) -> None:
        """Close the host's end; the rank exits when it notices."""
        self.socket.close()
