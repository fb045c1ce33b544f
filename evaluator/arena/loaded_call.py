"""A call in a rank: its arguments, and where its outputs go. The same code for submission and reference."""

import copy
import json
import mmap
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from evaluator.arena import protocol
from evaluator.arena.fingerprint import is_plain_tensor
from evaluator.arena.structure import Area, Tree, Unpacker, align, as_bytes, copy_into, joined

# Kept from before a submission is imported: a returned tensor may have its own methods.
_detach = torch.Tensor.detach


@dataclass
class LoadedCall:
    """A call between LOAD and DONE: its arguments, a copy of them to see changes, and where its outputs go.

    `watched` are aliases of the arguments, compared with `before`. `output` takes the description of the outputs,
    `area` their elements: the same file, or shared device memory. There the inputs lie in shared memory too, where
    `sealed` are the bytes of them that are unsealed when the call begins.
    """

    arguments: list[Any]
    tensors: list[torch.Tensor]
    mutable: frozenset[int]
    written: list[Any]
    nothing: frozenset[int]
    lists: frozenset[int]
    names: list[str]
    output: mmap.mmap
    area: Area
    before: list[torch.Tensor]
    watched: list[torch.Tensor]
    sealed: torch.Tensor | None = None
    returned: list[Any] = field(default_factory=list)
    _copies: list[list[Any]] = field(default_factory=list)

    def groups(self, count: int) -> list[list[Any]]:
        """`count` groups of arguments: the call's own, and copies, which stay for the next time."""
        while len(self._copies) < count - 1:
            self._copies.append([copy_of(argument) for argument in self.arguments])
        return [self.arguments, *self._copies[: count - 1]]

    def others(self) -> list[Any]:
        """Arguments of their own for another call: copies, with half of every number that is not whole."""
        return [copy_of(argument, factor=0.5) for argument in self.arguments]

    def collect(self, value: Any) -> list[Any]:
        """The outputs in the problem's order, out of what the call returned."""
        return interleave(value, self.written, nothing=self.nothing, lists=self.lists, names=self.names)

    def first_change(self) -> int:
        """The number of the first tensor that the call changed and must not change; -1 where there is none."""
        for number, (tensor, before) in enumerate(zip(self.watched, self.before, strict=True)):
            if number not in self.mutable and not same_bytes(tensor, before):
                return number
        return -1


def copy_of(value: Any, *, factor: float = 1.0) -> Any:
    """An argument with memory of its own; what has none, as a process group, is the same.

    Its tensors are `factor` times as large, but for those of whole numbers, of 8-bit floats and of modules.
    """
    if isinstance(value, torch.Tensor):
        is_scaled = factor != 1.0 and value.element_size() > 1 and (value.is_floating_point() or value.is_complex())
        return _detach(value) * factor if is_scaled else _detach(value).clone()
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value)
    if isinstance(value, dict):
        return {key: copy_of(item, factor=factor) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and type(value) is not torch.Size:
        return type(value)([copy_of(item, factor=factor) for item in value])
    return value


def read_call(
    tree: Tree, unpacker: Unpacker, *, output: mmap.mmap, area: Area, sealed: torch.Tensor | None = None
) -> LoadedCall:
    """The call that `tree` describes, its tensors made by `unpacker`.

    Args:
        tree: the head of a call's file, with its arguments and what the problem says of them.
        unpacker: reads the tensors from the inputs.
        output: takes the description of the outputs.
        area: takes their elements.
        sealed: the bytes of the inputs where they are sealed; otherwise a copy is kept, to see changes.
    """
    arguments: list[Any] = []
    mutable: set[int] = set()
    for name, item in tree["arguments"]:
        first = len(unpacker.tensors)
        arguments.append(unpacker.unpack(item))
        if name in tree["mutable"]:
            mutable.update(range(first, len(unpacker.tensors)))
    by_name = dict(zip((name for name, _ in tree["arguments"]), arguments, strict=True))
    return LoadedCall(
        arguments=arguments,
        tensors=unpacker.tensors,
        mutable=frozenset(mutable),
        written=[_located(argument, by_name) for argument in tree["outputs"]],
        nothing=frozenset(tree["nothing"]),
        lists=frozenset(tree["lists"]),
        names=tree["names"],
        output=output,
        area=area,
        before=[tensor.clone() for tensor in unpacker.tensors] if sealed is None else [],
        # A program may give its argument another shape: that changes no element. These keep shape and storage.
        watched=[_detach(tensor) for tensor in unpacker.tensors] if sealed is None else [],
        sealed=sealed,
    )


def _located(argument: Sequence[Any] | None, arguments: dict[str, Any]) -> Any:
    """The argument, or the element of a list, that `argument` names; None for an output that is returned."""
    if argument is None:
        return None
    name, element = argument
    return arguments[name] if element is None else arguments[name][element]


def interleave(
    value: Any,
    written: Sequence[Any],
    *,
    nothing: Collection[int] = (),
    lists: Collection[int] = (),
    names: Sequence[str] = (),
) -> list[Any]:
    """The outputs in the problem's order: what was returned, with written arguments where the problem has them.

    `written` has one entry per output: None where the output is returned, else the argument that holds it. At the
    indices `nothing` of a returned tuple, named or not, the problem expects None. A torch.Size, and a list or tuple of
    ints among several values, count as a tensor of int64 on the CPU. A dict counts as its values in the order of the
    outputs' `names`, then any others. The outputs numbered in `lists` are lists of tensors, taken as their stack; a
    written one has the entries that the call left in it.
    """
    returned = _returned(value, nothing=nothing, names=names)
    expected = sum(item is None for item in written)
    if expected == 0 and value is None:
        returned = []
    if len(returned) != expected:
        return [*returned, *(item for item in written if item is not None)]
    rest = iter(returned)
    outputs = [next(rest) if item is None else item for item in written]
    return [joined(item) if index in lists else item for index, item in enumerate(outputs)]


def _returned(value: Any, *, nothing: Collection[int], names: Sequence[str]) -> list[Any]:
    """What was returned as a list, without the None that the problem expects; see `interleave`."""
    listed = list(value) if _is_sequence(value) else _values(value, names)
    kept = [item for index, item in enumerate(listed) if index not in nothing or item is not None]
    return [torch.tensor(item, dtype=torch.int64) if _are_integers(item) else item for item in kept]


def _is_sequence(value: Any) -> bool:
    """Whether its entries are outputs: named tuples and torch's own return types are tuples, a torch.Size is one."""
    return isinstance(value, (tuple, list)) and type(value) is not torch.Size


def _are_integers(value: Any) -> bool:
    """Whether it counts as a tensor of int64 on the CPU; an empty list may be meant as a list of tensors."""
    if _is_sequence(value):
        return bool(value) and all(type(item) is int for item in value)
    return type(value) is torch.Size


def _values(value: Any, names: Sequence[str]) -> list[Any]:
    """A dict's values in the order of `names`, then any others; anything else alone."""
    if not isinstance(value, dict):
        return [value]
    return [value[name] for name in names if name in value] + [value[key] for key in value if key not in names]


def store_outputs(output: mmap.mmap, area: Area, tensors: Sequence[Any]) -> None:
    """Write a description of every output into the output file, and the elements of those that fit into the area."""
    describe_outputs(output, place_outputs(area, tensors))


def place_outputs(area: Area, tensors: Sequence[Any]) -> list[dict[str, Any]]:
    """Write the elements of every output that fits into the area, in stream order, and say where they lie."""
    described = _planned(len(area), tensors)
    for tensor, entry in zip(tensors, described, strict=False):
        if entry.get("start", -1) >= 0:
            copy_into(area, entry["start"], tensor)
    return described


def planned_outputs(area: Area, tensors: Sequence[Any]) -> tuple[list[dict[str, Any]], list[int]]:
    """Where every output would lie in an area of device memory: descriptions, and addresses (0: nowhere)."""
    assert isinstance(area, torch.Tensor)
    described = _planned(len(area), tensors)
    starts = [entry.get("start", -1) for entry in described] + [-1] * (len(tensors) - len(described))
    return described, [area.data_ptr() + start if start >= 0 else 0 for start in starts]


def store_host_outputs(area: Area, described: Sequence[dict[str, Any]], tensors: Sequence[Any]) -> None:
    """Copy the outputs that lie in the host's memory into an area of device memory; waits for it."""
    for tensor, entry in zip(tensors, described, strict=False):
        if entry.get("device") == "cpu" and entry["start"] >= 0:
            copy_into(area, entry["start"], tensor)


def _planned(room: int, tensors: Sequence[Any]) -> list[dict[str, Any]]:
    start = protocol.OUTPUT_HEADER_BYTES
    described = []
    for tensor in tensors[:256]:
        if not is_plain_tensor(tensor):
            described.append({"other": type(tensor).__name__[:80]})
            continue
        plain = _detach(tensor)
        size = plain.numel() * plain.element_size()
        is_stored = start + size <= room
        described.append(_described(plain, start if is_stored else -1))
        if is_stored:
            start = align(start + size)
    return described


def describe_outputs(output: mmap.mmap, described: Sequence[dict[str, Any]]) -> None:
    """Write the head of an output file."""
    text = json.dumps(described).encode()[: protocol.OUTPUT_HEADER_BYTES - 8]
    output[: 8 + len(text)] = struct.pack("<Q", len(text)) + text


def _described(tensor: torch.Tensor, start: int) -> dict[str, Any]:
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "device": tensor.device.type,
        "is_contiguous": tensor.is_contiguous(),
        "start": start,
    }


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors are alike to the bit; waits for the device."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return torch.equal(as_bytes(left.contiguous()), as_bytes(right.contiguous()))
