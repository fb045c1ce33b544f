"""A call's arguments as one file: an 8-byte length, a JSON tree, then raw tensor bytes. Never pickle.

On GPUs the bytes lie in device memory that both sides have mapped, and the file ends with the tree.

In the tree, numbers, strings, booleans and null stand for themselves. Everything else is an object with one key:

- `t`: tensor (dtype, shape, stride, start, count: elements stored from byte `start` of the data);
- `l`: list; `u`: tuple; `d`: dict; `s`: torch.Size;
- `g`: process group (its ranks); `m`: module (kind and named tensors);
- `o`: coalesced sparse COO tensor (its shape, its indices and values as tensors).

The trusted side writes, the sandbox side reads.
"""

import json
import mmap
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from evaluator.arena.device_memory import bytes_at

_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 512
"""The alignment of torch's allocator on GPUs, on which kernels may rely."""
MAX_DEPTH = 8
MAX_LEAVES = 4096
MAX_TREE_BYTES = 256 * 1024
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"l": list, "u": tuple, "s": torch.Size}

Tree = Any
"""A JSON value as described above."""

Area = mmap.mmap | torch.Tensor
"""Where bytes lie: a mapped file, or a flat uint8 tensor over shared device memory."""


class StructureError(ValueError):
    """A value cannot be put into a call's file, or a file is malformed."""


class Packer:
    """Collects the tensors of a tree and lays them out one after the other."""

    def __init__(self) -> None:
        self.tensors: list[tuple[int, torch.Tensor]] = []
        self.groups: list[list[int]] = []
        self.size = 0
        self._leaves = 0

    def pack(self, value: Any, depth: int = 0) -> Tree:
        """`value` as a tree; its tensors are noted for `write`. Raises StructureError for other values."""
        self._leaves += 1
        if depth > MAX_DEPTH or self._leaves > MAX_LEAVES:
            raise StructureError(f"arguments nest deeper than {MAX_DEPTH} or have more than {MAX_LEAVES} leaves")
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, torch.Tensor):
            return {"t": self._dense(value)} if value.layout is torch.strided else {"o": self._sparse(value, depth)}
        if isinstance(value, (list, tuple)):
            kind = "l" if isinstance(value, list) else "s" if isinstance(value, torch.Size) else "u"
            return {kind: [self.pack(item, depth + 1) for item in value]}
        if isinstance(value, dict):
            return {"d": {str(key): self.pack(item, depth + 1) for key, item in value.items()}}
        if (parts := getattr(value, "tensors", None)) is not None:
            tensors = {name: self.pack(tensor, depth + 1) for name, tensor in parts.items()}
            return {"m": {"kind": value.kind, "tensors": tensors}}
        ranks = getattr(value, "ranks", None)
        if ranks is not None:
            self.groups.append(list(ranks))
            return {"g": list(ranks)}
        raise StructureError(f"an argument of type {type(value).__name__} cannot be handed to a rank")

    def _sparse(self, tensor: torch.Tensor, depth: int) -> Tree:
        if tensor.layout is not torch.sparse_coo or not tensor.is_coalesced():
            raise StructureError(f"a tensor of layout {tensor.layout} cannot be handed to a rank, only coalesced COO")
        parts = {"indices": tensor.indices(), "values": tensor.values()}
        return {"shape": list(tensor.shape)} | {name: self.pack(part, depth + 1) for name, part in parts.items()}

    def _dense(self, tensor: torch.Tensor) -> Tree:
        """Keep the stretch of storage that `tensor` spans, so that strides survive."""
        span = 0 if tensor.numel() == 0 else 1 + sum((n - 1) * s for n, s in _extents(tensor))
        flat = tensor.detach().as_strided((span,), (1,))
        start = self.size
        self.tensors.append((start, flat))
        self.size = align(start + span * tensor.element_size())
        return {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "start": start,
            "count": span,
        }


def _extents(tensor: torch.Tensor) -> Iterator[tuple[int, int]]:
    return zip(tensor.shape, tensor.stride(), strict=True)


def align(size: int) -> int:
    """`size` rounded up to the alignment of tensors in a file."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def head_of(tree: Tree) -> bytes:
    """The length and the JSON text that begin a file, padded so that the data is aligned."""
    text = json.dumps(tree, separators=(",", ":")).encode()
    if len(text) > MAX_TREE_BYTES:
        raise StructureError(f"the structure has {len(text)} bytes, more than {MAX_TREE_BYTES}")
    head = _LENGTH.pack(len(text)) + text
    return head.ljust(align(len(head)), b"\0")


def read_head(buffer: mmap.mmap) -> tuple[Tree, int]:
    """The tree at the start of a file and the offset of its data."""
    (length,) = _LENGTH.unpack_from(buffer)
    if length > min(MAX_TREE_BYTES, len(buffer) - _LENGTH.size):
        raise StructureError(f"a structure of {length} bytes does not fit its file")
    end = _LENGTH.size + length
    return json.loads(buffer[_LENGTH.size : end]), align(end)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor as a flat view of its bytes."""
    # A column of at most one row counts as contiguous and still has its table's stride, which `view` does not take.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def _stretch(area: Area, start: int, size: int) -> torch.Tensor:
    """`size` bytes of an area from byte `start`, over the area itself."""
    if isinstance(area, torch.Tensor):
        return area[start : start + size]
    return torch.frombuffer(area, dtype=torch.uint8, count=size, offset=start)


def copy_into(area: Area, start: int, tensor: torch.Tensor) -> None:
    """Write a tensor's elements, in row-major order, at byte `start` of an area."""
    raw = as_bytes(tensor.detach().contiguous())
    if raw.numel():
        _stretch(area, start, raw.numel()).copy_(raw)


def view_of(area: Area, *, dtype: torch.dtype, start: int, count: int) -> torch.Tensor:
    """`count` elements at byte `start` of an area, as a flat tensor over the area itself."""
    if count == 0:
        return torch.empty(0, dtype=dtype, device=area.device if isinstance(area, torch.Tensor) else None)
    return _stretch(area, start, count * dtype.itemsize).view(dtype)


def joined(value: Any) -> Any:
    """A list or tuple of tensors of one shape, dtype and device as their stack; anything else as it is."""
    plain = (torch.Tensor, torch.nn.Parameter)
    if not isinstance(value, (list, tuple)) or not value or not all(type(item) in plain for item in value):
        return value
    likenesses = {(item.shape, item.dtype, item.device, item.layout) for item in value}
    return torch.stack(tuple(value)) if len(likenesses) == 1 and value[0].layout is torch.strided else value


def _module(kind: str, tensors: dict[str, torch.Tensor]) -> torch.nn.Module:
    """A module of `kind` over `tensors` themselves; no gradient is asked for."""
    if kind != "linear":
        raise StructureError(f"a module of kind {kind!r} is unknown")
    outputs, inputs = tensors["weight"].shape
    module = torch.nn.Linear(inputs, outputs, bias="bias" in tensors, device=torch.device("meta"))
    for name, tensor in tensors.items():
        setattr(module, name, torch.nn.Parameter(tensor, requires_grad=False))
    return module


class Unpacker:
    """Builds a rank's arguments from an area whose data begin at byte `data`.

    `previous`, the tensors of the call before, are written over where dtype, shape and stride agree. With `in_place`
    the arguments lie in the area itself, device memory that may be filled later, each as its own storage.
    """

    def __init__(
        self,
        area: Area,
        *,
        data: int,
        device: torch.device,
        group_of: Callable[[tuple[int, ...]], Any],
        previous: Sequence[torch.Tensor] = (),
        in_place: bool = False,
    ) -> None:
        self.tensors: list[torch.Tensor] = []
        self._area = area
        self._data = data
        self._device = device
        self._group_of = group_of
        self._previous = list(previous)
        self._in_place = in_place

    def unpack(self, tree: Tree) -> Any:
        """The value that `tree` describes."""
        if not isinstance(tree, dict):
            return tree
        ((kind, body),) = tree.items()
        if kind in _SEQUENCES:
            return _SEQUENCES[kind]([self.unpack(item) for item in body])
        makers: dict[str, Callable[[Tree], Any]] = {
            "t": self._tensor,
            "o": self._sparse,
            "g": lambda ranks: self._group_of(tuple(ranks)),
            "m": lambda module: _module(module["kind"], self._named(module["tensors"])),
            "d": self._named,
        }
        return makers[kind](body)

    def _named(self, items: dict[str, Tree]) -> dict[str, Any]:
        return {name: self.unpack(item) for name, item in items.items()}

    def _sparse(self, body: Tree) -> torch.Tensor:
        """A sparse tensor over the very indices and values, so that a change of either is seen in what is watched."""
        indices, values = self.unpack(body["indices"]), self.unpack(body["values"])
        return torch.sparse_coo_tensor(indices, values, body["shape"], is_coalesced=True, check_invariants=False)

    def _tensor(self, body: Tree) -> torch.Tensor:
        dtype: torch.dtype = getattr(torch, body["dtype"])
        start = self._data + body["start"]
        if self._in_place:
            tensor = self._over(dtype, start, body["count"]).as_strided(body["shape"], body["stride"]).data
        else:
            flat = view_of(self._area, dtype=dtype, start=start, count=body["count"])
            tensor = self._copied(flat, flat.as_strided(body["shape"], body["stride"]))
        self.tensors.append(tensor)
        return tensor

    def _over(self, dtype: torch.dtype, start: int, count: int) -> torch.Tensor:
        """`count` elements over the area's memory."""
        assert isinstance(self._area, torch.Tensor)
        if not count:
            return torch.empty(0, dtype=dtype, device=self._device)
        return bytes_at(self._area.data_ptr() + start, count * dtype.itemsize, device=self._device).view(dtype)

    def _copied(self, flat: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        tensor = self._reusable(source)
        if tensor is None:
            # Not at the start of its storage, as a part of a larger tensor lies.
            lead = _ALIGNMENT // flat.element_size()
            tensor = torch.empty(lead + flat.numel(), dtype=flat.dtype, device=self._device)[lead:]
            return tensor.copy_(flat).as_strided(source.shape, source.stride())
        # Through `.data`, so that a version counter does not reveal new inputs.
        tensor.data.as_strided(flat.shape, (1,)).copy_(flat)
        return tensor

    def _reusable(self, source: torch.Tensor) -> torch.Tensor | None:
        for tensor in self._previous[len(self.tensors) :][:1]:
            if (tensor.dtype, tensor.shape, tensor.stride()) == (source.dtype, source.shape, source.stride()):
                return tensor
        return None
