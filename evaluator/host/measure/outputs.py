"""Reading a rank's output file: copy it out of the rank's reach, then parse its header strictly."""

import hashlib
import math
import os
import secrets
import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from evaluator.arena.protocol import OUTPUT_HEADER_BYTES
from evaluator.host.process import memory_files
from evaluator.host.process.logs import clean
from evaluator.host.ranks.oracle_group import PreparedInputs
from problems.spec.memory import ITEM_BYTES

_COPY_BYTES = 16 * 1024 * 1024
_MAX_OUTPUTS = 256
_MAX_DIMENSIONS = 16
_MAX_EXTENT = 2**40
"""Larger tensors are described and never read."""

_TORCHS_DIMENSIONS, _TORCHS_EXTENT = 64, 2**63
"""What no tensor of torch has."""

_MAX_ELEMENTS = 2**56
"""The largest span of a tensor, an extent of 0 counting as 1: torch refuses larger views, even empty ones."""


class HeaderError(ValueError):
    """The shim did not write this output header."""


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dtype: str = ""
    shape: tuple[int, ...] = ()
    device: str = ""
    start: int = -1
    is_contiguous: bool = True
    other: str | None = None


def new_poison() -> bytes:
    """Eight secret bytes that are NaN in every floating-point format and outside any honest range as integers."""
    return struct.pack("<4H", *(0x7FF9 + secrets.randbelow(7) for _ in range(4)))


def create(size: int, *, poison: bytes = b"") -> int:
    """A memory file of `size` bytes that nobody can resize; returns its descriptor.

    Its data are filled with `poison`, which shows what was never written.
    """
    descriptor = memory_files.create("outputs", size)
    if poison:
        piece = poison * (min(_COPY_BYTES, size) // len(poison))
        for start in range(OUTPUT_HEADER_BYTES, size, len(piece)):
            os.pwrite(descriptor, piece[: size - start], start)
    return descriptor


def create_all(inputs: Sequence[PreparedInputs], *, poison: bytes) -> list[int]:
    """A file for each rank's outputs, as `create` makes it."""
    return [create(item.room, poison=poison) for item in inputs]


def close_all(descriptors: Sequence[int]) -> None:
    """Close every one."""
    for descriptor in descriptors:
        os.close(descriptor)


def take(descriptor: int, *, leading: int | None = None) -> int:
    """A copy of an output file as it is now, which the rank cannot change. Returns its descriptor.

    With `leading`, only so many bytes are copied; the rest of the copy reads as zeros.
    """
    size = os.fstat(descriptor).st_size
    copy = os.memfd_create("taken", os.MFD_CLOEXEC)
    os.ftruncate(copy, size)
    done, wanted = 0, size if leading is None else min(leading, size)
    while done < wanted:
        done += os.pwrite(copy, os.pread(descriptor, min(_COPY_BYTES, wanted - done), done), done)
    return copy


def read_header(descriptor: int) -> list[dict[str, Any]]:
    """The outputs that a copied file describes, as plain values with checked extents and offsets.

    Raises:
        HeaderError: it is malformed, or describes elements outside the file.
    """
    return parse_header(os.pread(descriptor, OUTPUT_HEADER_BYTES, 0), file_bytes=os.fstat(descriptor).st_size)


def parse_header(head: bytes, *, file_bytes: int) -> list[dict[str, Any]]:
    """As `read_header`, for the first bytes of a file of `file_bytes`."""
    if len(head) < 8:
        raise HeaderError("the output file has no header")
    (length,) = struct.unpack_from("<Q", head)
    if not 2 <= length <= len(head) - 8:
        raise HeaderError(f"a header of {length} bytes is impossible")
    try:
        entries = msgspec.json.decode(head[8 : 8 + length], type=list[_Entry])
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HeaderError(f"the header is not what a rank writes: {error}") from error
    if len(entries) > _MAX_OUTPUTS:
        raise HeaderError(f"{len(entries)} outputs are more than {_MAX_OUTPUTS}")
    return [_checked(entry, file_bytes) for entry in entries]


def _checked(entry: _Entry, file_bytes: int) -> dict[str, Any]:
    if entry.other is not None:
        return {"other": clean(entry.other)[:80]}
    # A dtype we never store (quantised, sub-byte) can still be returned by mistake; it has no elements to read.
    item_bytes = ITEM_BYTES.get(entry.dtype)
    if len(entry.shape) > _TORCHS_DIMENSIONS or any(not 0 <= extent < _TORCHS_EXTENT for extent in entry.shape):
        raise HeaderError(f"a tensor of shape {str(entry.shape)[:200]} is impossible")
    if len(entry.shape) > _MAX_DIMENSIONS or max(entry.shape, default=0) > _MAX_EXTENT:
        return {"other": f"tensor of {len(entry.shape)} dimensions, up to {max(entry.shape)} long"}
    is_readable = item_bytes is not None and math.prod(max(1, extent) for extent in entry.shape) <= _MAX_ELEMENTS
    start = entry.start if is_readable else -1
    if start >= 0:
        end = start + math.prod(entry.shape) * (item_bytes or 1)
        if start < OUTPUT_HEADER_BYTES or start % 16 or end > file_bytes:
            raise HeaderError("a tensor lies outside the output file")
    # The author sees a name that is not the expected one.
    names = {"dtype": clean(entry.dtype)[:40], "device": clean(entry.device)[:20]}
    return {**names, "shape": list(entry.shape), "is_contiguous": entry.is_contiguous, "start": max(start, -1)}


def digest(descriptor: int) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()
