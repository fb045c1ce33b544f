"""The process that opens the gates of a call and observes its end, on its own processor.

Run by the path of this file with one argument, JSON; beside the standard library it needs the layouts of two pages
alone. It shares no interpreter lock with anything, so that no other thread of the judge stretches a time. Commands
come one by one over its socket, each with the page of the group's clock as a descriptor; to each there is one answer. A
message without a page in the meantime ends the present call. Oracle ranks hear of ends on a page of their own.
"""

import gc
import json
import mmap
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evaluator.arena import protocol
from evaluator.oracle import ends as ends_page
from evaluator.oracle.ends import Ends

_SPINS_PER_LOOK = 512
"""How often the words are read between two looks at the socket."""
_LONGEST_ORDER = 4096


@dataclass(frozen=True, kw_only=True)
class GateCommand:
    """One call to time.

    Attributes:
        number: the call's, which ranks write as their answers.
        ticket: this command's, which never comes again.
        key: seals the inputs.
        delays_ns: for each rank how much later than the first its gate opens.
        head_ns: how long ranks may queue work before the gates open.
        waits_for_queue: whether the gates open as soon as all ranks have queued everything.
        limit_ns: when to give up, from the opening.
    """

    number: int
    ticket: int
    key: bytes
    delays_ns: tuple[int, ...]
    head_ns: int
    waits_for_queue: bool
    limit_ns: int

    @classmethod
    def from_json(cls, raw: bytes) -> "GateCommand":
        """The command in a message of the host."""
        body: dict[str, Any] = json.loads(raw)
        return cls(**body | {"key": bytes.fromhex(body["key"]), "delays_ns": tuple(body["delays_ns"])})

    def to_json(self) -> bytes:
        """This command as a message."""
        return json.dumps({**vars(self), "key": self.key.hex()}).encode()


class ClockWords:
    """The numbers that ranks and host write on a clock's page, one per rank."""

    def __init__(self, page: mmap.mmap, *, ranks: int) -> None:
        self._page = page
        self._layout = struct.Struct(f"<{ranks}Q")
        self._ranks = ranks

    def queued(self) -> tuple[int, ...]:
        """The call that each rank has queued last."""
        return self._layout.unpack_from(self._page, protocol.QUEUED_WORDS)

    def arrived(self) -> tuple[int, ...]:
        """The last call whose gate each rank's device has reached."""
        return self._layout.unpack_from(self._page, protocol.ARRIVED_WORDS)

    def done(self) -> tuple[int, ...]:
        """The call that each rank's device has finished last."""
        return self._layout.unpack_from(self._page, protocol.DONE_WORDS)

    def marks(self) -> list[str]:
        """Each rank's fingerprint."""
        words = struct.unpack_from(f"<{2 * self._ranks}Q", self._page, protocol.MARK_WORDS)
        at = protocol.HOST_MARK_WORDS
        return [
            protocol.mark_text(words[2 * rank], words[2 * rank + 1], self._page[at + 16 * rank : at + 16 * rank + 16])
            for rank in range(self._ranks)
        ]

    def bring_key(self, key: bytes) -> None:
        """Put the key where the gates read it; stores reach a device in program order."""
        self._page[protocol.KEY_START : protocol.KEY_START + len(key)] = key

    def open(self, rank: int, number: int) -> None:
        """Open one rank's gate."""
        struct.pack_into("<Q", self._page, protocol.OPEN_WORDS + 8 * rank, number)


class Stop:
    """Whether the host wants to end the present call; once set, it stays set."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._is_set = False

    def is_set(self) -> bool:
        """Check whether the host has said so."""
        if not self._is_set:
            with suppress(BlockingIOError):
                self._channel.recv(_LONGEST_ORDER, socket.MSG_DONTWAIT)
                self._is_set = True
        return self._is_set


def timed(words: ClockWords, command: GateCommand, channel: socket.socket, ends: Ends) -> dict[str, Any]:
    """Open the gates when it is time, and note when each rank's end is seen; -1 for one that was not.

    Where the host ends the call before, the gates open without the key: devices need not wait, and read nothing.
    """
    begun, stop = time.monotonic_ns(), Stop(channel)
    has_queued = _wait_for_ranks(words, command, stop, begun=begun)
    is_wanted = not stop.is_set()
    opened = time.monotonic_ns()
    if is_wanted:
        words.bring_key(command.key)  # not earlier: with the key anyone can read the inputs
    for delay_ns, rank in sorted((delay, rank) for rank, delay in enumerate(command.delays_ns)):
        while time.monotonic_ns() < opened + delay_ns:
            pass
        words.open(rank, command.number)
    done_ns = _ended(words, command, stop, opened=opened, ends=ends)
    return {"head_ns": opened - begun, "has_queued": has_queued, "done_ns": done_ns, "marks": words.marks()}


def _wait_for_ranks(words: ClockWords, command: GateCommand, stop: Stop, *, begun: int) -> bool:
    """Give the ranks their time to launch ahead, and return whether all have queued everything by then."""
    now, latest, wanted = time.monotonic_ns, begun + command.head_ns, (command.number,) * len(command.delays_ns)
    while now() < latest:
        if command.waits_for_queue and words.queued() == wanted:
            break
    # A device that is busy with another process reaches its gate some 0.1 ms later, which does not count.
    while words.arrived() != wanted and now() < begun + command.limit_ns and not stop.is_set():
        pass
    return words.queued() == wanted


def _ended(words: ClockWords, command: GateCommand, stop: Stop, *, opened: int, ends: Ends) -> list[int]:
    """When each rank ended, from the opening: its device has finished, and the program has returned on the host."""
    now, number = time.monotonic_ns, command.number
    done_ns = [-1] * len(command.delays_ns)
    spins = 0
    while -1 in done_ns:
        seen = words.done()
        if number in seen:
            at, queued = now() - opened, words.queued()
            for rank, last in enumerate(seen):
                if last == number == queued[rank] and done_ns[rank] < 0:
                    done_ns[rank] = at
                    ends.post(rank, command.ticket)
        spins += 1
        if spins % _SPINS_PER_LOOK == 0 and (now() > opened + command.limit_ns or stop.is_set()):
            break
    for rank, at in enumerate(done_ns):
        if at < 0:
            ends.give_up(rank, command.ticket)
    return done_ns


def serve(channel: socket.socket, ends: Ends) -> None:
    """Carry out commands until the host closes its end."""
    gc.disable()
    while True:
        raw, descriptors, _flags, _address = socket.recv_fds(channel, _LONGEST_ORDER, 1)
        if not raw:
            return
        if not descriptors:
            continue  # the stop came after the end of the call
        command = GateCommand.from_json(raw)
        with mmap.mmap(descriptors[0], protocol.CLOCK_PAGE_BYTES) as page:
            os.close(descriptors[0])
            answer = timed(ClockWords(page, ranks=len(command.delays_ns)), command, channel, ends)
        channel.send(json.dumps(answer).encode())


def main() -> None:
    """Serve on the descriptor that the command line names, on its processors."""
    settings = json.loads(sys.argv[1])
    if settings["cores"]:
        os.sched_setaffinity(0, settings["cores"])
    serve(socket.socket(fileno=settings["channel"]), Ends(mmap.mmap(settings["ends"], ends_page.BYTES)))


if __name__ == "__main__":
    main()
