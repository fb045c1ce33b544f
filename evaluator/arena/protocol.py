"""The fixed-size records that cross between the host and a sandbox rank, and the layout of a rank's diary.

Standard library only: the host reads these too. Each record is one packet of a SOCK_SEQPACKET socket.
"""

import signal
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Self


class ReportKind(IntEnum):
    """What a rank may tell the host."""

    READY = 1
    IMPORTED = 2
    LOADED = 3
    DONE = 4
    FAILED = 5
    STORED = 6


class CommandKind(IntEnum):
    """What the host may tell a rank."""

    IMPORT = 1
    LOAD = 2
    GO = 3
    STORE = 4


class Failure(IntEnum):
    """Why a rank reports FAILED (`detail` of the record); the text is in its diary."""

    START = 1
    IMPORT = 2
    ENTRY = 3
    RAISED = 4
    OUT_OF_MEMORY = 5


class Phase(IntEnum):
    """Where a rank is, as it notes in its diary. A claim, used for diagnosis only."""

    STARTING = 0
    WAITING = 1
    IMPORTING = 2
    LOADING = 3
    AT_START = 4
    CALLING = 5
    SETTLING = 6
    STORING = 7
    LINED_UP = 8


@dataclass(frozen=True, kw_only=True)
class Report:
    """One record from a rank.

    `claimed_ns` is the time of the call as the rank measured it (stream order on a GPU), `settled_ns` the same until
    its device was idle. `detail` is a `Failure`, or for DONE the number of the first input that changed (-1: none).
    `fingerprint` is taken of what was returned, before anything is waited for; `moved` counts the library collectives
    that moved tensors in a call in which they were counted.
    """

    kind: ReportKind
    call: int = 0
    claimed_ns: int = 0
    settled_ns: int = 0
    detail: int = -1
    fingerprint: int = 0
    moved: int = 0

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<4sIIqqqqI")
    MAGIC: ClassVar[bytes] = b"PKBr"

    def pack(self) -> bytes:
        """This record as bytes."""
        return self.LAYOUT.pack(
            self.MAGIC,
            self.kind,
            self.call,
            self.claimed_ns,
            self.settled_ns,
            self.detail,
            self.fingerprint,
            self.moved,
        )

    @classmethod
    def unpack(cls, packet: bytes) -> Self:
        """The record in `packet`; raises ValueError for anything but one well-formed record."""
        if len(packet) != cls.LAYOUT.size:
            raise ValueError(f"a record has {cls.LAYOUT.size} bytes, not {len(packet)}")
        magic, kind, call, claimed_ns, settled_ns, detail, fingerprint, moved = cls.LAYOUT.unpack(packet)
        if magic != cls.MAGIC:
            raise ValueError("a record starts with its magic number")
        if claimed_ns < 0 or settled_ns < claimed_ns:
            raise ValueError(f"times of {claimed_ns} and {settled_ns} ns cannot be")
        return cls(
            kind=ReportKind(kind),
            call=call,
            claimed_ns=claimed_ns,
            settled_ns=settled_ns,
            detail=detail,
            fingerprint=fingerprint,
            moved=moved,
        )


@dataclass(frozen=True, kw_only=True)
class Command:
    """One record to a rank. LOAD carries two descriptors: the call's input file and its output file.

    `reuse` asks the rank to write the new contents into the tensors of the call before where shapes agree; `held` keeps
    the call for a burst: one GO then runs all that are held, one after the other. GO may ask for a `delay_us` between
    the line-up and the call, and to `count` the library collectives in it; a descriptor that comes with it takes the
    records of an audited call. STORE carries a new output file, for what was returned as it is now.
    """

    kind: CommandKind
    call: int = 0
    reuse: bool = False
    delay_us: int = 0
    count: bool = False
    held: bool = False

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<4sIIIIII")
    MAGIC: ClassVar[bytes] = b"PKBc"

    def pack(self) -> bytes:
        """This record as bytes."""
        return self.LAYOUT.pack(self.MAGIC, self.kind, self.call, self.reuse, self.delay_us, self.count, self.held)

    @classmethod
    def unpack(cls, packet: bytes) -> Self:
        """The record in `packet`."""
        _magic, kind, call, reuse, delay_us, count, held = cls.LAYOUT.unpack(packet)
        return cls(
            kind=CommandKind(kind),
            call=call,
            reuse=bool(reuse),
            delay_us=delay_us,
            count=bool(count),
            held=bool(held),
        )


EXIT = struct.Struct("<4sIi")
"""What the launcher says of a rank that has ended: magic number, rank, wait status."""
EXIT_MAGIC = b"PKBx"
SHIM_FAILED = 70
"""Exit code of a rank whose shim met an exception that is not the submission's."""
CHANNEL_LOST = 71
"""Exit code of a rank whose shim found its channel closed from inside."""

PHASE_LAYOUT = struct.Struct("<IIQ")
"""Head of a diary: phase, call, monotonic nanoseconds."""

DIARY_TEXT_START = 64
DIARY_FLIGHT_START = 16 * 1024
DIARY_STACK_START = 20 * 1024
DIARY_BYTES = 64 * 1024
"""A diary is a file of this size: head, error text (UTF-8, NUL-terminated), the collectives noted on `FLIGHT_SIGNAL`
(JSON, NUL-terminated), then the stacks dumped on SIGUSR1."""
FLIGHT_SIGNAL = signal.SIGRTMIN + 3
"""Asks a rank for its collectives; torch itself prints native stacks with the help of SIGUSR2."""

OUTPUT_HEADER_BYTES = 64 * 1024
"""An output file starts with an 8-byte little-endian length and a JSON header; the data begins here."""

BARRIER_BYTES = 4096
"""The page through which the ranks of a gang line up: one 8-byte call number per rank, 64 bytes apart."""
BARRIER_STRIDE = 64
