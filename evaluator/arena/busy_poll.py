"""Busy-polling for a message, for a process on its own processor."""

import socket
import time
from typing import Any

_Received = tuple[bytes, list[tuple[int, int, bytes]], int, Any]


def receive(channel: socket.socket, size: int, ancillary_size: int, *, busy_poll_s: float) -> _Received:
    """As `channel.recvmsg(size, ancillary_size)`, but busy-polling for the first `busy_poll_s` seconds.

    Raises OSError where the channel is broken.
    """
    deadline = time.monotonic() + busy_poll_s
    while time.monotonic() < deadline:
        try:
            return channel.recvmsg(size, ancillary_size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
    return channel.recvmsg(size, ancillary_size)
