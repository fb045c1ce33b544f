"""What a recorded call shows: primitives, hidden library collectives, which kernels ran."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from evaluator.contract import (
    Backend,
    Detection,
    EvidenceSource,
    Finding,
    KernelCode,
    MachineCode,
    Primitive,
    Verdict,
    WorkKind,
    WorkTotal,
)

_LIBRARY = re.compile(r"\bnccl(?:Symk?)?(?:Dev)?Kernel")
"""Kernels of NCCL's own collectives: ncclDevKernel_AllReduce_..., ncclSymkDevKernel_..., ncclKernel_... before."""

_SIGNS: tuple[tuple[Primitive, WorkKind, re.Pattern[str]], ...] = (
    (Primitive.NVLS, WorkKind.KERNEL, re.compile(r"\bmultimem_\w+|\bncclSymk?DevKernel\w*(?:LDMC|STMC)\w*|_NVLS\w*")),
    (Primitive.NVSHMEM, WorkKind.KERNEL, re.compile(r"nvshmem|_on_stream_kernel_threadgroup\b", re.IGNORECASE)),
    (Primitive.NCCL, WorkKind.KERNEL, _LIBRARY),
    (Primitive.SM_LOAD_STORE, WorkKind.KERNEL, re.compile(r"\bc10d::symmetric_memory::(?!barrier|multimem)\w+_kernel")),
    (Primitive.COPY_ENGINE, WorkKind.COPY, re.compile(r"\bMemcpy PtoP|\bMemcpy Peer", re.IGNORECASE)),
)
"""Names of libraries' kernels and copies. Loads, stores and bulk copies inside other kernels have no name here."""


def detections(works: Sequence[WorkTotal]) -> tuple[Detection, ...]:
    """One detection for each primitive that the records show: the work that took longest, and how many there were."""
    found = []
    for primitive, kind, sign in _SIGNS:
        shown = [work for work in works if work.kind is kind and sign.search(work.name)]
        if shown:
            first = max(shown, key=lambda work: work.us)
            count = sum(work.count for work in shown)
            times = f", {count} of this kind in the recorded call" if count > 1 else ""
            found.append(
                Detection(primitive=primitive, evidence=EvidenceSource.PROFILER, detail=f"{_short(first.name)}{times}")
            )
    return tuple(found)


def hidden_collectives(works: Sequence[WorkTotal], *, backend: Backend) -> Finding | None:
    """A finding where more kernels of library collectives ran than torch.distributed started; None for backend pytorch.

    Each operator of torch.distributed accounts for one kernel: barriers and handles are allowed, and what it moves is
    counted elsewhere. Something else started the other kernels.
    """
    if backend is Backend.PYTORCH:
        return None
    kernels = [work for work in works if work.kind is WorkKind.KERNEL and _LIBRARY.search(work.name)]
    asked = sum(work.count for work in works if work.kind is WorkKind.OPERATOR and "c10d" in work.name.split("::")[0])
    started = sum(work.count for work in kernels)
    if started <= asked:
        return None
    first = max(kernels, key=lambda work: work.us)
    message = (
        f"{_short(first.name)} ran inside solution: {started} kernels of library collectives, of which "
        f"torch.distributed started {asked}. Only backend pytorch may use them for the problem's data"
    )
    return Finding(verdict=Verdict.FORBIDDEN, message=message)


def _short(name: str) -> str:
    return name if len(name) <= 90 else f"{name[:87]}..."


MOST_KERNELS, MOST_PACKED_BYTES = 24, 384 * 1024
"""How many kernels a report shows, and how large their packed instructions may be together."""

_CUT_CHARACTERS = 100
"""A recording cuts names at 160 bytes, so that of a longer name only the beginning is compared."""


def has_run(kernel: KernelCode, names: Iterable[str]) -> bool:
    """Whether `kernel` is among the recorded `names`."""
    return any(
        name in (kernel.name, kernel.symbol)
        or (len(name) >= _CUT_CHARACTERS and kernel.name.startswith(name[:_CUT_CHARACTERS]))
        for name in names
    )


def reported(code: MachineCode, names: frozenset[str]) -> MachineCode:
    """`code` with the kernels that fit into a report, those among the recorded `names` first."""
    kept: list[KernelCode] = []
    room = MOST_PACKED_BYTES
    for kernel in sorted(code.kernels, key=lambda kernel: not has_run(kernel, names)):
        if len(kept) < MOST_KERNELS and len(kernel.packed) <= room:
            kept.append(kernel)
            room -= len(kernel.packed)
    dropped = code.dropped + len(code.kernels) - len(kept)
    return msgspec.structs.replace(code, kernels=tuple(kept), dropped=dropped)
