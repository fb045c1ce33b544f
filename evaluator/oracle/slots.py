"""Files in memory, or device memory, through which contents reach the sandbox and outputs come back."""

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from evaluator.arena.device import DeviceMemory
from evaluator.arena.structure import Area, Packer, copy_into, head_of, view_of
from problems.schema import Problem

_SEALED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class DeviceSlot:
    """Device memory for one rank's inputs and outputs at one size, shared with the sandbox by descriptors.

    Contents can differ in length from call to call, so the inputs' area is made anew where it has become too small.
    """

    def __init__(self, *, input_bytes: int, output_bytes: int, device: torch.device) -> None:
        self._device = device
        self.inputs = _area(input_bytes, device=device)
        self.outputs = _area(output_bytes, device=device)
        self._is_announced = False

    def make_room(self, input_bytes: int) -> None:
        """See that the inputs' area holds at least `input_bytes`, with a quarter to spare where it grows."""
        if self.inputs.size < input_bytes:
            self.inputs.close()
            self.inputs = _area(input_bytes * 5 // 4, device=self._device)
            self._is_announced = False

    def announcement(self) -> list[int]:
        """Descriptors of both areas if the sandbox does not have them yet, else none."""
        if self._is_announced:
            return []
        self._is_announced = True
        return [self.inputs.descriptor(), self.outputs.descriptor()]

    def take(self, size: int) -> torch.Tensor:
        """A copy of the first `size` bytes of the outputs as they are now; later edits by the rank change nothing."""
        return self.outputs.bytes[:size].clone()

    def close(self) -> None:
        """Give the memory back."""
        self.inputs.close()
        self.outputs.close()


def _area(least: int, *, device: torch.device) -> DeviceMemory:
    """An area past torch's allocator, for which that gives back what it keeps for later if there is no room."""
    try:
        return DeviceMemory.create(least, device=device)
    except RuntimeError:
        torch.cuda.empty_cache()
        return DeviceMemory.create(least, device=device)


def write_inputs(
    problem: Problem,
    arguments: Mapping[str, Any],
    *,
    groups: Sequence[Sequence[int]],
    slot: DeviceSlot | None = None,
) -> tuple[int, list[str]]:
    """A sealed memory file with one rank's arguments of one call; returns its descriptor and whose tensors it holds.

    With a `slot` the file holds the structure only, and the tensors are in the slot's device memory.

    Args:
        problem: says which arguments are mutable and which outputs are written in place.
        arguments: values by parameter name, in signature order.
        groups: every process group that any rank of the call needs, in the order in which to create them.
        slot: the device memory to put the tensors in; None for the file itself.
    """
    packer = Packer()
    packed: list[list[Any]] = []
    owners: list[str] = []
    for name, value in arguments.items():
        packed.append([name, packer.pack(value)])
        owners += [name] * (len(packer.tensors) - len(owners))
    tree = {
        "arguments": packed,
        "groups": [list(ranks) for ranks in groups],
        "mutable": [argument.name for argument in problem.arguments if argument.mutable or argument.scratch],
        "outputs": [None if out.argument is None else [out.argument, out.element] for out in problem.outputs],
        "nothing": list(problem.nothing_at),
        "lists": list(problem.list_places),
        "names": [output.name for output in problem.outputs],
    }
    if slot is not None:
        slot.make_room(packer.size)
    tree["areas"] = [] if slot is None else [slot.inputs.size, slot.outputs.size]
    head = head_of(tree)
    descriptor = os.memfd_create("inputs", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, len(head) + (packer.size if slot is None else 0))
    with mmap.mmap(descriptor, 0) as buffer:
        buffer[: len(head)] = head
        area, data = (buffer, len(head)) if slot is None else (slot.inputs.bytes, 0)
        for start, tensor in packer.tensors:
            copy_into(area, data + start, tensor)
    if slot is not None:
        torch.cuda.synchronize()  # the contents are there before anybody is told to look
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALED)
    return descriptor, owners


def groups_of(arguments: Mapping[str, Any]) -> list[list[int]]:
    """The process groups among a rank's arguments."""
    packer = Packer()
    for value in arguments.values():
        packer.pack(value)
    return packer.groups


def read_output(
    area: Area, *, dtype: torch.dtype, shape: Sequence[int], start: int, device: torch.device
) -> torch.Tensor:
    """The tensor at byte `start` of copied outputs, on `device`."""
    count = 1
    for extent in shape:
        count *= extent
    return view_of(area, dtype=dtype, start=start, count=count).reshape(tuple(shape)).to(device)
