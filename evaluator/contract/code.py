"""What a submission's code shows: how it moves data between GPUs, and its machine code, which is not judged."""

import zlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from evaluator.contract.base import Amount, ContractError, Count, Line, Message, Name, Sentence, WorldSize


class Primitive(StrEnum):
    """A hardware path by which data moves between GPUs."""

    COPY_ENGINE = "copy_engine"
    SM_LOAD_STORE = "sm_load_store"
    TMA = "tma"
    NVLS = "nvls"
    NVSHMEM = "nvshmem"
    NCCL = "nccl"
    NCCL_DEVICE = "nccl_device"


class EvidenceSource(StrEnum):
    """What a detection rests on: the source, the machine code of a built extension, or the profiler's records."""

    SOURCE = "source"
    COMPILED = "compiled"
    PROFILER = "profiler"


class Detection(Message, frozen=True, kw_only=True):
    """One primitive that a submission uses, with its evidence: `detail` quotes what was found.

    `file` and `line` lead into the source; for machine code `file` is the module and `line` None.
    """

    primitive: Primitive
    evidence: EvidenceSource
    detail: Sentence
    file: Name | None = None
    line: Line | None = None


class WorkKind(StrEnum):
    """The kinds of work in a recorded call: kernels, copies and fills of the device, operators of torch.distributed."""

    KERNEL = "kernel"
    COPY = "copy"
    FILL = "fill"
    OPERATOR = "operator"


class WorkTotal(Message, frozen=True, kw_only=True):
    """All work of one name in the recorded call: on the rank that did most of it, and on how many `ranks` it ran.

    `us` is its time in all, `bytes` what was copied or filled in all (0 where unknown).
    """

    kind: WorkKind
    name: Name
    count: Count
    us: Amount
    bytes: Count = 0
    ranks: WorldSize = 1


class RecordedWork(Message, frozen=True, kw_only=True):
    """What ran in the recorded call, which is not timed, as the profiler inside the ranks reports it: untrusted.

    The works that took longest come first; `dropped` more names are left out. `note` says why there are none.
    """

    size: Name
    works: Annotated[tuple[WorkTotal, ...], Meta(max_length=200)] = ()
    dropped: Count = 0
    note: Sentence = ""


MOST_UNPACKED_BYTES = 4 * 1024**2
"""How long the instructions of one kernel may be once they are unpacked."""
MOST_INSTRUCTIONS = 8000
"""Of one kernel, labels among them."""


class Instruction(Message, frozen=True, kw_only=True, array_like=True):
    """One instruction or label as the disassembler prints it; written as an array.

    `file` is an index in the listing's files and `line` counts from 1; -1 and 0 where the build has no line for it.
    """

    text: Name
    file: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1
    line: Line = 0


_Instructions = Annotated[tuple[Instruction, ...], Meta(max_length=MOST_INSTRUCTIONS)]


class KernelCode(Message, frozen=True, kw_only=True):
    """One kernel: its name, the module that has it, and what a launch takes.

    `symbol` is the name that the compiler gave it. `registers` is per thread, `stack_bytes` per thread (spilled
    registers and local arrays), `shared_bytes` per block without what a launch adds; None where nothing says. `count`
    is the number of instructions, of which `packed` has the first: compressed JSON, read with `instructions`.
    """

    name: Name
    symbol: Name
    module: Name
    registers: Count | None = None
    stack_bytes: Count | None = None
    shared_bytes: Count | None = None
    count: Count
    packed: bytes

    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions; raises ContractError where `packed` is not what `pack` makes, or too long."""
        unpacker = zlib.decompressobj()
        try:
            content = unpacker.decompress(self.packed, MOST_UNPACKED_BYTES)
            if not unpacker.eof:
                raise ContractError(f"the code of {self.symbol[:80]} is longer than {MOST_UNPACKED_BYTES:,} bytes")
            return msgspec.json.decode(content, type=_Instructions)
        except (zlib.error, msgspec.DecodeError) as error:
            raise ContractError(f"the code of {self.symbol[:80]} cannot be read: {error}") from error


class MachineCode(Message, frozen=True, kw_only=True):
    """Kernels of a submission's build; `files` are names that their instructions share.

    Files of the submission have their own paths, others the last part of theirs. `dropped` counts kernels that were
    left out; `note` says why there are none.
    """

    files: Annotated[tuple[Name, ...], Meta(max_length=200)] = ()
    kernels: Annotated[tuple[KernelCode, ...], Meta(max_length=64)] = ()
    dropped: Count = 0
    note: Sentence = ""


def pack(instructions: Sequence[Instruction]) -> bytes:
    """The instructions as `KernelCode.instructions` reads them."""
    return zlib.compress(msgspec.json.encode(list(instructions)), 9)
