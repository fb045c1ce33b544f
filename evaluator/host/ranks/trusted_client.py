"""The host's side of the trusted ranks of one role: a command to each, one reply from each."""

import os
import selectors
import socket
import time
from collections.abc import Callable, Sequence

from evaluator.errors import EvaluatorError
from evaluator.oracle import messages

Replies = list[tuple[messages.Body, list[int]]]


def _unlimited(seconds: float) -> float:
    return seconds


class OutOfDeviceMemory(EvaluatorError):
    """The device of a trusted rank had no memory left."""


class TrustedRankClient:
    """The channels of all ranks of one role, in their order.

    Args:
        role: what the ranks are called in messages.
        channels: the host's ends; closed with the client.
        seconds: how long a reply may take.
        busy_poll_s: how long to busy-poll for a reply before sleeping.
        log_text: the end of what the ranks printed.

    Attributes:
        owes: whether an answer is still to come, or was left behind after an error: then the next one would be taken
            for the answer to another command.
    """

    def __init__(
        self,
        role: str,
        channels: Sequence[socket.socket],
        *,
        seconds: float,
        busy_poll_s: float,
        log_text: Callable[[], str],
    ) -> None:
        self._role = role
        self._channels = list(channels)
        self._seconds = seconds
        self._busy_poll_s = busy_poll_s
        self._log_text = log_text
        self._is_ready = False
        self.owes = False
        self._within: Callable[[float], float] = _unlimited
        self.answered_at_ns = [0] * len(self._channels)

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self._channels)

    def limit(self, within: Callable[[float], float] | None) -> None:
        """Shorten the time for every reply by `within`: an evaluation holds its slot only so long. None: do not."""
        self._within = within or _unlimited

    def wait_until_ready(self, seconds: float) -> None:
        """Return once every rank has joined its process group; raises EvaluatorError."""
        if not self._is_ready:
            self.collect("starting", seconds=seconds)
            self._is_ready = True

    def ask(self, message: messages.Body) -> Replies:
        """Every rank's reply to a command; raises EvaluatorError."""
        return self.ask_each([message] * self.ranks, [()] * self.ranks)

    def ask_each(self, commands: Sequence[messages.Body], descriptors: Sequence[Sequence[int]]) -> Replies:
        """Every rank's reply, each to its own command; raises EvaluatorError."""
        self.send(commands, descriptors)
        return self.collect(str(commands[0]["command"]))

    def send(self, commands: Sequence[messages.Body], descriptors: Sequence[Sequence[int]]) -> None:
        """Send every rank its command; `collect` must follow before the next command. Raises EvaluatorError."""
        self.owes = True
        try:
            for channel, message, files in zip(self._channels, commands, descriptors, strict=True):
                messages.send(channel, message, files)
        except OSError as error:
            raise EvaluatorError(f"{self._role} rank has gone: {error}; {self._log_text()}") from error

    def collect(self, doing: str, *, seconds: float | None = None) -> Replies:
        """One reply from every rank; raises EvaluatorError where one fails, ends, or is silent for too long.

        After a lack of memory the other ranks' replies are received too, so that they can be used again.
        """
        limit_s = self._within(self._seconds if seconds is None else seconds)
        replies: dict[int, tuple[messages.Body, list[int]]] = {}
        wanting: OutOfDeviceMemory | None = None
        start = time.monotonic()
        deadline, awake_until = start + limit_s, start + self._busy_poll_s if self._is_ready else start
        with selectors.DefaultSelector() as selector:
            for number, channel in enumerate(self._channels):
                selector.register(channel, selectors.EVENT_READ, number)
            while len(replies) < self.ranks:
                now = time.monotonic()
                ready = selector.select(0 if now < awake_until else max(0.0, deadline - now))
                if not ready and now < awake_until:
                    continue
                if not ready:
                    raise EvaluatorError(f"the {self._role} ranks did not answer {doing!r} within {limit_s:g} s")
                for key, _ in ready:
                    try:
                        replies[key.data] = self._receive(key.data, doing)
                    except OutOfDeviceMemory as error:
                        wanting, replies[key.data] = error, ({}, [])
                    self.answered_at_ns[key.data] = time.monotonic_ns()
                    selector.unregister(key.fileobj)
        self.owes = False
        if wanting is not None:
            for _, descriptors in replies.values():
                for descriptor in descriptors:
                    os.close(descriptor)
            raise wanting
        return [replies[number] for number in range(self.ranks)]

    def _receive(self, number: int, doing: str) -> tuple[messages.Body, list[int]]:
        who = f"{self._role} rank {number}"
        try:
            reply = messages.receive(self._channels[number])
        except OSError as error:
            raise EvaluatorError(f"{who} has gone during {doing!r}: {error}") from error
        if reply is None:
            raise EvaluatorError(f"{who} ended during {doing!r}: {self._log_text()}")
        if "error" in reply[0]:
            kind = OutOfDeviceMemory if reply[0]["is_memory"] else EvaluatorError
            raise kind(f"{who} failed during {doing!r}: {reply[0]['error']}")
        return reply

    def close(self) -> None:
        """Close the host's ends."""
        for channel in self._channels:
            channel.close()
