"""How a submission moves data between GPUs, and the evidence for it."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from evaluator.contract.base import Amount, Count, Line, Message, Name, Sentence, WorldSize


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
