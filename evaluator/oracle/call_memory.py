"""Files in memory, or device memory, through which inputs reach the ranks and outputs come back."""

import fcntl
import hashlib
import json
import mmap
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evaluator.arena.device_memory import DeviceMemory
from evaluator.arena.gate import Sealer
from evaluator.arena.structure import Packer, Tree, as_bytes, copy_into, head_of
from problems.spec.schema import Problem

_SEALED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

_SHIFTS, _SHIFT_BYTES = 256, 4096
"""Inputs begin at one of so many offsets in their area, so that an address says nothing about them."""


class DeviceBuffer:
    """Device memory for one rank's inputs and outputs at one size, shared with the ranks that run a program.

    Inputs lie there sealed. Lengths can differ between calls, so the areas are replaced where they are too small.
    """

    def __init__(self, *, device: torch.device, numbers: Iterator[int]) -> None:
        """Make the areas. Whenever one is new, they get the next of `numbers`, which never repeat."""
        self._device = device
        self._numbers = numbers
        self._data = 0
        self._has_inputs = self._has_outputs = False
        self.inputs = _area(1, device=device)
        self.outputs = _area(1, device=device)
        self._number = next(numbers)

    def make_room(self, output_bytes: int) -> None:
        """Make room for outputs of `output_bytes`."""
        if self.outputs.size < output_bytes:
            self.outputs.close()
            self.outputs = _area(room_to_grow(output_bytes, has_grown=self._has_outputs), device=self._device)
            self._number = next(self._numbers)
        self._has_outputs = True

    def lay_out(self, input_bytes: int, *, reuse: bool) -> int:
        """Make room for inputs of `input_bytes`; returns their offset, with `reuse` that of the last call."""
        shifts = _SHIFTS * _SHIFT_BYTES
        if self.inputs.size < input_bytes + shifts:
            self.inputs.close()
            self.inputs = _area(shifts + room_to_grow(input_bytes, has_grown=self._has_inputs), device=self._device)
            self._number = next(self._numbers)
        self._has_inputs = True
        if not reuse:
            self._data = _SHIFT_BYTES * secrets.randbelow(_SHIFTS)
        return self._data

    def announcement(self, mapped: int) -> tuple[int, list[int]]:
        """The areas' number, and descriptors of both for ranks that have areas of another number mapped."""
        if mapped == self._number:
            return mapped, []
        return self._number, [self.inputs.descriptor(), self.outputs.descriptor()]

    def take(self, size: int) -> torch.Tensor:
        """A copy of `size` bytes of the outputs as they are now, which the rank cannot change."""
        return self.outputs.bytes[:size].clone()

    def close(self) -> None:
        """Release the memory."""
        self.inputs.close()
        self.outputs.close()


def room_to_grow(needed: int, *, has_grown: bool) -> int:
    """Bytes for what takes `needed` bytes in one call.

    In most problems all calls need the same: then room to spare would only take memory from submissions. Where one
    call needs more than a call before (`has_grown`), later calls may need more still.
    """
    return needed + (needed // 4 if has_grown else 0)


def _area(least: int, *, device: torch.device) -> DeviceMemory:
    """An area outside torch's allocator, which first releases its cache where there is no room."""
    try:
        return DeviceMemory.create(least, device=device)
    except RuntimeError:
        torch.cuda.empty_cache()
        return DeviceMemory.create(least, device=device)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One rank's inputs of a call before any rank can read them.

    Attributes:
        file: descriptor of a memory file that nobody can change, with the structure, and without a buffer with the
            tensors too.
        owners: for each tensor the argument that it belongs to.
        tensors: for each tensor its offset among the inputs, and its bytes.
        size: bytes of all inputs of the rank.
        data: offset of the inputs in device memory.
        layout: the same for arguments that differ only in values of tensors and in fractions.
    """

    file: int
    owners: tuple[str, ...]
    tensors: tuple[tuple[int, int], ...]
    size: int
    data: int
    layout: str


def prepare_inputs(
    problem: Problem,
    arguments: Mapping[str, Any],
    *,
    groups: Sequence[Sequence[int]],
    buffer: DeviceBuffer | None = None,
    sealer: Sealer | None = None,
    reuse: bool = False,
) -> Prepared:
    """One rank's arguments of one call as a file; with a `buffer` its tensors lie in device memory, sealed.

    Args:
        problem: says which arguments are mutable and which outputs are written in place.
        arguments: values by parameter name, in signature order.
        groups: every process group that any rank of the call needs, in the order in which to create them.
        buffer: the device memory to put the tensors in; None for the file itself.
        sealer: seals them there under its present key; comes with a buffer.
        reuse: whether they begin at the offset of the call before.
    """
    packer = Packer()
    packed: list[list[Any]] = []
    owners: list[str] = []
    for name, value in arguments.items():
        packed.append([name, packer.pack(value)])
        owners += [name] * (len(packer.tensors) - len(owners))
    data = 0 if buffer is None else buffer.lay_out(packer.size, reuse=reuse)
    head = head_of(
        _described(problem, packed, groups=groups)
        | {
            "areas": [] if buffer is None else [buffer.inputs.size, buffer.outputs.size],
            "data": data,
            "bytes": packer.size,
        }
    )
    if buffer is not None and sealer is not None:
        _seal(packer.tensors, buffer, sealer, data=data)
        file = _written(head, (), size=0)
    else:
        file = _written(head, packer.tensors, size=packer.size)
    return Prepared(
        file=file,
        owners=tuple(owners),
        tensors=tuple((start, tensor.numel() * tensor.element_size()) for start, tensor in packer.tensors),
        size=packer.size,
        data=data,
        layout=layout_of(packed),
    )


def layout_of(packed: Tree) -> str:
    """A digest of packed arguments without their values: shapes, dtypes, whole numbers, flags and words are left."""
    return hashlib.blake2b(json.dumps(_without_fractions(packed)).encode(), digest_size=16).hexdigest()


def _without_fractions(tree: Tree) -> Tree:
    if isinstance(tree, dict):
        return {key: _without_fractions(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_without_fractions(value) for value in tree]
    return 0.0 if isinstance(tree, float) else tree


def _described(problem: Problem, packed: list[list[Any]], *, groups: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The description of a call for its rank."""
    return {
        "arguments": packed,
        "groups": [list(ranks) for ranks in groups],
        "mutable": [argument.name for argument in problem.arguments if argument.mutable or argument.scratch],
        "outputs": [None if out.argument is None else [out.argument, out.element] for out in problem.outputs],
        "nothing": list(problem.nothing_at),
        "lists": list(problem.list_indices),
        "names": [output.name for output in problem.outputs],
    }


def _seal(tensors: Sequence[tuple[int, torch.Tensor]], buffer: DeviceBuffer, sealer: Sealer, *, data: int) -> None:
    """Put tensors into device memory, sealed; returns when the device has finished."""
    for start, tensor in tensors:
        sealer.seal(as_bytes(tensor.contiguous()), buffer.inputs.bytes[data + start :], start=start)
    torch.cuda.synchronize()  # no work of ours may be queued when the gate closes


def _written(head: bytes, tensors: Sequence[tuple[int, torch.Tensor]], *, size: int) -> int:
    """A memory file with `head` and then `size` bytes of tensors, which nobody can change."""
    descriptor = os.memfd_create("inputs", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, len(head) + size)
    with mmap.mmap(descriptor, 0) as buffer:
        buffer[: len(head)] = head
        for start, tensor in tensors:
            copy_into(buffer, len(head) + start, tensor)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALED)
    return descriptor


def changed_input(
    prepared: Prepared, arguments: Mapping[str, Any], *, buffer: DeviceBuffer, mutable: Collection[str]
) -> str | None:
    """The first argument in device memory that the call changed, of those that it must not change."""
    packer = Packer()
    for value in arguments.values():
        packer.pack(value)
    for owner, (start, tensor) in zip(prepared.owners, packer.tensors, strict=True):
        raw = as_bytes(tensor.contiguous())
        begin = prepared.data + start
        if owner not in mutable and not torch.equal(raw, buffer.inputs.bytes[begin : begin + raw.numel()]):
            return owner
    return None


def groups_of(arguments: Mapping[str, Any]) -> list[list[int]]:
    """The process groups among a rank's arguments."""
    packer = Packer()
    for value in arguments.values():
        packer.pack(value)
    return packer.groups
