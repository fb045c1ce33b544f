"""Which of a build's kernels a report shows: those that ran in the recorded call first, within a limit."""

from collections.abc import Iterable

import msgspec

from evaluator.contract import KernelCode, MachineCode

MOST_KERNELS, MOST_PACKED_BYTES = 24, 384 * 1024
"""How many kernels a report shows, and how large their packed instructions may be together."""

_CUT_CHARACTERS = 100
"""A recording cuts names at 160 bytes, so that of a longer name only the beginning is compared."""


def has_run(kernel: KernelCode, names: Iterable[str]) -> bool:
    """Whether `kernel` is among the recorded `names`."""
    return any(_is_same(kernel.name, name) or kernel.symbol == name for name in names)


def _is_same(name: str, recorded: str) -> bool:
    return name == recorded or (len(recorded) >= _CUT_CHARACTERS and name.startswith(recorded[:_CUT_CHARACTERS]))


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
