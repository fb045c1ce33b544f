"""The fixed-size records that cross between the host and a sandbox rank, and the layout of a rank's status page.

Standard library only: the host reads these too. Each record is one packet of a SOCK_SEQPACKET socket.
"""

import signal
import struct
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import ClassVar, Self


class ReportKind(IntEnum):
    """What a rank may report to the host."""

    READY = 1
    IMPORTED = 2
    LOADED = 3
    DONE = 4
    FAILED = 5
    STORED = 6
    LOOPED = 7
    RECORDING = 8


class CommandKind(IntEnum):
    """What the host may command a rank to do."""

    IMPORT = 1
    LOAD = 2
    GO = 3
    STORE = 4
    BARE = 5
    LOOP = 6
    RECORD = 7


class Failure(IntEnum):
    """Why a rank reports FAILED (`detail` of the record); the text is on its status page."""

    START = 1
    IMPORT = 2
    ENTRY = 3
    RAISED = 4
    OUT_OF_MEMORY = 5


class Phase(IntEnum):
    """Where a rank is, as it notes on its status page. Self-reported, used only for diagnosis."""

    STARTING = 0
    WAITING = 1
    IMPORTING = 2
    LOADING = 3
    AT_START = 4
    CALLING = 5
    SYNCHRONIZING = 6
    STORING = 7


@dataclass(frozen=True, kw_only=True)
class Report:
    """One record from a rank.

    `claimed_ns` is the time of the call on the rank's own clock (stream order on a GPU): a cross-check.
    `detail` is a `Failure`, or for DONE the number of the first input that changed (-1: none; CPU ranks only).
    `fingerprint` is taken of what was returned (CPU ranks; on GPUs it is on the clock's page). `moved` counts the
    library collectives that moved tensors in a call in which they were counted.
    """

    kind: ReportKind
    call: int = 0
    claimed_ns: int = 0
    detail: int = -1
    fingerprint: int = 0
    moved: int = 0

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<4sIIqqqI")
    MAGIC: ClassVar[bytes] = b"PKBr"

    def pack(self) -> bytes:
        """This record as bytes."""
        return self.LAYOUT.pack(self.MAGIC, *vars(self).values())

    @classmethod
    def unpack(cls, packet: bytes) -> Self:
        """The record in `packet`; raises ValueError for anything but one well-formed record."""
        if len(packet) != cls.LAYOUT.size:
            raise ValueError(f"a record has {cls.LAYOUT.size} bytes, not {len(packet)}")
        magic, kind, call, claimed_ns, detail, fingerprint, moved = cls.LAYOUT.unpack(packet)
        if magic != cls.MAGIC:
            raise ValueError("a record starts with its magic number")
        if claimed_ns < 0:
            raise ValueError(f"a time of {claimed_ns} ns is impossible")
        return cls(
            kind=ReportKind(kind),
            call=call,
            claimed_ns=claimed_ns,
            detail=detail,
            fingerprint=fingerprint,
            moved=moved,
        )


@dataclass(frozen=True, kw_only=True)
class Command:
    """One record to a rank.

    LOAD carries the call's output file; on GPUs before it the file that describes the inputs, and after it new areas of
    device memory. GO lets the call begin: on CPU ranks it carries the inputs, which no rank has had before. It may ask
    to `count` library collectives, and a CPU rank to begin later by `delay_us`; a rank with a delay is slow. A GPU rank
    with `is_open` waits until its gate is open before it runs the submission. `reuse` asks a CPU rank to write
    the new inputs into the tensors of the call before where shapes agree. With `goes_on` a rank begins another call, on
    other inputs, as soon as it has stored the outputs of this one. RECORD comes between LOAD and GO: the rank
    records what runs, until the end of the call, into the file that it carries. STORE carries a new output file, for
    what was returned as it is now. BARE is a bare call, before the submission is there; LOOP asks for `times` calls
    back to back on the inputs of the last, or on as many `groups` of them in turn: copies, except for the first.
    """

    kind: CommandKind
    call: int = 0
    reuse: bool = False
    delay_us: int = 0
    count: bool = False
    is_open: bool = False
    goes_on: bool = False
    times: int = 0
    groups: int = 1

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<4sII?I???II")
    MAGIC: ClassVar[bytes] = b"PKBc"

    def pack(self) -> bytes:
        """This record as bytes."""
        return self.LAYOUT.pack(self.MAGIC, *vars(self).values())

    @classmethod
    def unpack(cls, packet: bytes) -> Self:
        """The record in `packet`."""
        _magic, kind, *values = cls.LAYOUT.unpack(packet)
        _kind, *names = (field.name for field in fields(cls))
        return cls(kind=CommandKind(kind), **dict(zip(names, values, strict=True)))


EXIT = struct.Struct("<4sIi")
"""The launcher's report of a rank that has ended: magic number, rank, wait status."""
EXIT_MAGIC = b"PKBx"
SHIM_FAILED = 70
"""Exit code of a rank whose shim raised an exception that is not the submission's."""
CHANNEL_LOST = 71
"""Exit code of a rank in which something closed the shim's channel."""

PHASE_LAYOUT = struct.Struct("<IIQ")
"""Head of a status page: phase, call, monotonic nanoseconds."""

STATUS_TEXT_START = 64
STATUS_FLIGHT_START = 16 * 1024
STATUS_STACK_START = 20 * 1024
STATUS_BYTES = 64 * 1024
"""The bytes of a status page: head, error text (UTF-8, NUL-terminated), the collectives noted on `FLIGHT_SIGNAL`
(JSON, NUL-terminated), then the stacks dumped on SIGUSR1."""
FLIGHT_SIGNAL = signal.SIGRTMIN + 3
"""Asks a rank for its collectives; torch itself prints native stacks with the help of SIGUSR2."""

OUTPUT_HEADER_BYTES = 64 * 1024
"""An output file starts with an 8-byte little-endian length and a JSON header; the data begins here."""

BARRIER_BYTES = 4096
"""The page through which the ranks of a worker group line up: one 8-byte call number per rank, 64 bytes apart."""
BARRIER_STRIDE = 64

CLOCK_PAGE_BYTES = 8192
"""The pages through which the host times the calls of a rank group on GPUs; the driver maps them into each device.

The host writes `OPEN_WORDS` (an 8-byte call number per rank) and the key at `KEY_START`. Ranks write `QUEUED_WORDS`;
their devices write `ARRIVED_WORDS` and `DONE_WORDS` (call numbers likewise) and `MARK_WORDS` (16 bytes per rank). The
fingerprint of outputs in the host's memory is at `HOST_MARK_WORDS` (16 bytes per rank).
"""
OPEN_WORDS = 0
KEY_START = 1024
QUEUED_WORDS = 4096
DONE_WORDS = 4608
ARRIVED_WORDS = 5120
MARK_WORDS = 6144
HOST_MARK_WORDS = 7168


def mark_text(low: int, high: int, host_mark: bytes) -> str:
    """A fingerprint of 128 bits as 32 hexadecimal digits, that of outputs in the host's memory mixed in."""
    return f"{(high << 64 | low) ^ int.from_bytes(host_mark, 'little'):032x}"


def fingerprint_text(number: int) -> str:
    """A CPU rank's fingerprint, a signed 64-bit number, as 16 hexadecimal digits."""
    return f"{number & (2**64 - 1):016x}"
