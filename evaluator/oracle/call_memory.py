"""Files in memory, or device memory, through which contents reach the sandbox and outputs come back."""

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evaluator.arena.device_memory import DeviceMemory
from evaluator.arena.structure import Area, Packer, align, copy_into, head_of, view_of
from problems.schema import Problem

_SPARE = 1.25
"""Where contents differ in length, those of a burst have room for so many times the longest that was seen."""

_SEALED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class DeviceSlot:
    """Device memory for one rank's inputs and outputs at one size, shared with the sandbox by descriptors.

    It has places for the calls of a burst; a single call has the first. Contents wait in memory of the oracle's own
    until they are published: nobody can read them before. They can differ in length from call to call, so the areas are
    made anew where they have become too small.
    """

    def __init__(self, *, output_bytes: int, device: torch.device) -> None:
        self._device = device
        self._room = output_bytes
        self._lengths: set[int] = set()
        self._stride = 0
        self._filled = 0
        self.inputs = _area(1, device=device)
        self.outputs = _area(output_bytes, device=device)
        self._waiting = torch.empty(0, dtype=torch.uint8, device=device)
        self._is_announced = False

    def lay_out(self, input_bytes: int, *, place: int, places: int) -> tuple[int, tuple[int, int]]:
        """See that there is room for contents of `input_bytes` at `place`.

        Returns:
            Where the inputs begin, and where the room for outputs begins and ends.

        Raises:
            NoRoomError: the contents are longer than those that the places were made for.
        """
        self._lengths.add(input_bytes)
        if place == 0:
            is_known = len(self._lengths) == 1
            self._stride = align(max(self._lengths) if is_known else int(_SPARE * max(self._lengths)))
            self._make_room(self._stride * places, self._room * places)
        elif input_bytes > self._stride:
            raise NoRoomError
        self._filled = place * self._stride + input_bytes
        return place * self._stride, (place * self._room, (place + 1) * self._room)

    def _make_room(self, input_bytes: int, output_bytes: int) -> None:
        if self.inputs.size < input_bytes:
            self.inputs.close()
            self.inputs = _area(input_bytes * 5 // 4, device=self._device)
            self._is_announced = False
        if self.outputs.size < output_bytes:
            self.outputs.close()
            self.outputs = _area(output_bytes, device=self._device)
            self._is_announced = False
        if self._waiting.numel() < self.inputs.size:
            self._waiting = torch.empty(self.inputs.size, dtype=torch.uint8, device=self._device)

    def withdraw(self) -> None:
        """Announce the areas again: what was handed out last has not reached the sandbox."""
        self._is_announced = False

    def announcement(self) -> list[int]:
        """Descriptors of both areas if the sandbox does not have them yet, else none."""
        if self._is_announced:
            return []
        self._is_announced = True
        return [self.inputs.descriptor(), self.outputs.descriptor()]

    def keep(self, start: int, tensor: torch.Tensor) -> None:
        """Have `tensor` wait for byte `start` of the inputs."""
        copy_into(self._waiting, start, tensor)

    def publish(self) -> None:
        """Put what waits where the sandbox can read it; it is there when this returns."""
        self.inputs.bytes[: self._filled].copy_(self._waiting[: self._filled])
        torch.cuda.synchronize()

    def take(self, size: int, *, start: int = 0) -> torch.Tensor:
        """A copy of `size` bytes of the outputs as they are now; later edits by the rank change nothing."""
        return self.outputs.bytes[start : start + size].clone()

    def close(self) -> None:
        """Give the memory back."""
        self.inputs.close()
        self.outputs.close()


class NoRoomError(Exception):
    """Contents of a burst are longer than their place."""


def _area(least: int, *, device: torch.device) -> DeviceMemory:
    """An area past torch's allocator, for which that gives back what it keeps for later if there is no room."""
    try:
        return DeviceMemory.create(least, device=device)
    except RuntimeError:
        torch.cuda.empty_cache()
        return DeviceMemory.create(least, device=device)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One rank's inputs of a call before anybody can read them.

    Attributes:
        file: descriptor of a sealed memory file with the structure, and with the tensors where there is no slot.
        owners: for each tensor the argument that it belongs to.
        size: bytes that the rank takes in.
        room: where room for its outputs begins and ends in device memory; zeros where there is no slot.
    """

    file: int
    owners: tuple[str, ...]
    size: int
    room: tuple[int, int]


def prepare_inputs(
    problem: Problem,
    arguments: Mapping[str, Any],
    *,
    groups: Sequence[Sequence[int]],
    slot: DeviceSlot | None = None,
    place: int = 0,
    places: int = 1,
) -> Prepared:
    """One rank's arguments of one call as a file; with a `slot` its tensors wait to be published in device memory.

    Args:
        problem: says which arguments are mutable and which outputs are written in place.
        arguments: values by parameter name, in signature order.
        groups: every process group that any rank of the call needs, in the order in which to create them.
        slot: the device memory to put the tensors in; None for the file itself.
        place: which call of a burst this is.
        places: how many calls the burst has; 1 for a call by itself.

    Raises:
        NoRoomError: the tensors do not fit into their place.
    """
    packer = Packer()
    packed: list[list[Any]] = []
    owners: list[str] = []
    for name, value in arguments.items():
        packed.append([name, packer.pack(value)])
        owners += [name] * (len(packer.tensors) - len(owners))
    data, room = (0, (0, 0)) if slot is None else slot.lay_out(packer.size, place=place, places=places)
    head = head_of(
        {
            "arguments": packed,
            "groups": [list(ranks) for ranks in groups],
            "mutable": [argument.name for argument in problem.arguments if argument.mutable or argument.scratch],
            "outputs": [None if out.argument is None else [out.argument, out.element] for out in problem.outputs],
            "nothing": list(problem.nothing_at),
            "lists": list(problem.list_places),
            "names": [output.name for output in problem.outputs],
            "areas": [] if slot is None else [slot.inputs.size, slot.outputs.size],
            "data": data,
            "bytes": packer.size,
            "room": room,
        }
    )
    descriptor = os.memfd_create("inputs", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, len(head) + (packer.size if slot is None else 0))
    with mmap.mmap(descriptor, 0) as buffer:
        buffer[: len(head)] = head
        for start, tensor in packer.tensors:
            if slot is None:
                copy_into(buffer, len(head) + start, tensor)
            else:
                slot.keep(data + start, tensor)
    if slot is not None:
        torch.cuda.synchronize()  # what is published later has been drawn by then
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALED)
    return Prepared(file=descriptor, owners=tuple(owners), size=packer.size, room=room)


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
