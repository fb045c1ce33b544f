"""Faults that a GPU's driver reports (NVIDIA's numbered Xid events): in words, and which end a slot's work."""

from collections.abc import Iterable

from evaluator.contract import DriverFault

_WORDS = {
    13: "a kernel was ended for an exception",
    31: "a memory access outside of what is mapped",
    43: "the driver stopped a program's work",
    45: "work was cleared after an earlier fault",
    48: "a double-bit error of the memory",
    63: "faulty memory was taken out of use",
    64: "faulty memory could not be taken out of use",
    74: "an error of NVLink",
    79: "the GPU has fallen off the bus",
    94: "an uncorrectable memory error, contained in one program",
    95: "an uncorrectable memory error, not contained",
    119: "the GPU's system processor did not answer",
    120: "an error of the GPU's system processor",
    140: "an unrecovered memory error",
}
"""From NVIDIA's list, https://docs.nvidia.com/deploy/xid-errors/. 13, 31, 43 and 45 are what wrong programs cause."""

_GRAVE = frozenset({48, 63, 79, 94, 95, 119, 140})
"""The device itself is suspect, whatever the submission did: a start list, to be confirmed by what nodes show."""


def words(xid: int) -> str:
    """What this fault is, in a few words; empty where its number is none that we have words for."""
    return _WORDS.get(xid, "")


def is_grave(xid: int) -> bool:
    """Whether a slot with this fault takes no further work before a person has looked at its node."""
    return xid in _GRAVE


def sentence(fault: DriverFault) -> str:
    """One line for authors and operators: "GPU 3: Xid 31 (a memory access outside of what is mapped), 2 times"."""
    what = f" ({explained})" if (explained := words(fault.xid)) else ""
    often = f", {fault.count} times" if fault.count > 1 else ""
    return f"GPU {fault.gpu}: Xid {fault.xid}{what}{often}"


def against_the_slot(faults: Iterable[DriverFault]) -> tuple[str, ...]:
    """Why a slot that saw these faults must not go on, a line for each grave one; mostly nothing."""
    return tuple(f"the driver reported on {sentence(fault)}" for fault in faults if is_grave(fault.xid))
