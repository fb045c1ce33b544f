"""Faults that a GPU's driver reports (NVIDIA's numbered Xid events): in words, and which of them stop a slot."""

from collections.abc import Iterable

from evaluator.contract import DriverFault

_WORDS = {
    13: "an exception ended a kernel",
    31: "a memory access outside mapped memory",
    43: "the driver stopped a program's work",
    45: "work was cleared after an earlier fault",
    48: "a double-bit memory error",
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
"""Faults that suggest a broken device, whatever the submission did. A first list, to be confirmed by experience."""


def words(xid: int) -> str:
    """What this fault is, in a few words; empty for a number that is not in the list."""
    return _WORDS.get(xid, "")


def is_grave(xid: int) -> bool:
    """Whether a slot with this fault takes no more work until a person has checked its node."""
    return xid in _GRAVE


def sentence(fault: DriverFault) -> str:
    """One line for authors and operators: "GPU 3: Xid 31 (a memory access outside mapped memory), 2 times"."""
    what = f" ({explained})" if (explained := words(fault.xid)) else ""
    often = f", {fault.count} times" if fault.count > 1 else ""
    return f"GPU {fault.gpu}: Xid {fault.xid}{what}{often}"


def against_the_slot(faults: Iterable[DriverFault]) -> tuple[str, ...]:
    """Why a slot with these faults must stop: one line for each grave fault."""
    return tuple(f"the driver reported on {sentence(fault)}" for fault in faults if is_grave(fault.xid))
