"""Messages between the host and its oracle ranks: one JSON object per packet, descriptors beside it.

Both ends are ours, but JSON keeps them independent. Without torch: the host uses it too.
"""

import array
import socket
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from evaluator.arena import busy_poll
from evaluator.contract import ErrorMap, Message, OutputCheck, Verdict

MAX_MESSAGE_BYTES = 128 * 1024
MAX_DESCRIPTORS = 4

Body = dict[str, Any]


class Reader(StrEnum):
    """Whose rank inputs are prepared for."""

    SANDBOX = "sandbox"
    REFERENCE = "reference"


class CheckedOutput(Message, frozen=True, kw_only=True):
    """What the oracle found in one rank's output of one call.

    Attributes:
        verdict: None means correct.
        stale: the earlier call whose expected outputs the rank returned.
        unwritten: the share of the output that was never written.
    """

    check: OutputCheck
    verdict: Verdict | None = None
    message: str = ""
    stale: int | None = None
    unwritten: float = 0.0
    error_map: ErrorMap | None = None

    @property
    def rank(self) -> int:
        """Whose output."""
        return self.check.rank

    @property
    def output(self) -> str:
        """The name of the output."""
        return self.check.output


def send(channel: socket.socket, message: Body, descriptors: Sequence[int] = ()) -> None:
    """Send one message; raises OSError where the other end has gone."""
    packet = msgspec.json.encode(message)
    if len(packet) > MAX_MESSAGE_BYTES:
        raise OSError(f"a message of {len(packet)} bytes is longer than {MAX_MESSAGE_BYTES}")
    socket.send_fds(channel, [packet], list(descriptors))


def receive(channel: socket.socket, *, busy_poll_s: float = 0.0) -> tuple[Body, list[int]] | None:
    """The next message and its descriptors, None once the other end has gone; busy-polls for `busy_poll_s` first."""
    packet, ancillary, _flags, _address = busy_poll.receive(
        channel, MAX_MESSAGE_BYTES, socket.CMSG_SPACE(4 * MAX_DESCRIPTORS), busy_poll_s=busy_poll_s
    )
    descriptors = array.array("i")
    for _level, _type, data in ancillary:
        descriptors.frombytes(data)
    if not packet:
        return None
    message: Body = msgspec.json.decode(packet)
    return message, list(descriptors)
