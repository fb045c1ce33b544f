"""Zip archives whose reading fails, one for each way."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

_DIRECTORY, _END = b"PK\x01\x02", b"PK\x05\x06"
_SOLUTION = "def solution(tensor):\n    return tensor\n"


def _packed(path: str, *, packing: int = zipfile.ZIP_DEFLATED, extra: bytes = b"", text: str = _SOLUTION) -> bytearray:
    """A sound archive with one file."""
    buffer = io.BytesIO()
    member = zipfile.ZipInfo(path)
    member.compress_type = packing
    member.extra = extra
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, text)
    return bytearray(buffer.getvalue())


def _with(content: bytearray, signature: bytes, offset: int, layout: str, value: int) -> bytearray:
    """`content` with another number in the record that begins with `signature`."""
    struct.pack_into(layout, content, content.index(signature) + offset, value)
    return content


def _later_version(path: str) -> bytearray:
    return _with(_packed(path), _DIRECTORY, 6, "<H", 99)


def _password(path: str) -> bytearray:
    return _with(_packed(path), _DIRECTORY, 8, "<H", 1)


def _no_deflate_stream(path: str) -> bytearray:
    content = _packed(path, text=_SOLUTION * 50)
    start = 30 + len(path)
    content[start : start + 20] = b"\xff" * 20
    return content


def _longer_than_the_archive(path: str) -> bytearray:
    content = _packed(path, packing=zipfile.ZIP_STORED)
    for offset in (20, 24):  # packed and unpacked
        _with(content, _DIRECTORY, offset, "<I", 100_000)
    return content


def _name_in_no_utf8(path: str) -> bytearray:
    content = _with(_packed(path), _DIRECTORY, 8, "<H", 0x800)
    content[content.index(_DIRECTORY) + 46] = 0xFF
    return content


def _before_the_start(path: str) -> bytearray:
    """The directory seems to begin later than it does, so that the files seem to begin before the archive."""
    content = _packed(path)
    (offset,) = struct.unpack_from("<I", content, content.index(_END) + 16)
    return _with(content, _END, 16, "<I", offset + 1000)


def _beyond_every_offset(path: str) -> bytearray:
    content = _packed(path, extra=struct.pack("<HHQ", 1, 8, 2**64 - 1))
    return _with(content, _DIRECTORY, 42, "<I", 0xFFFF_FFFF)


UNREADABLE: dict[str, tuple[type[Exception], Callable[[str], bytes | bytearray]]] = {
    "no archive": (zipfile.BadZipFile, lambda _path: b"PK"),
    "a later version": (NotImplementedError, _later_version),
    "a password": (RuntimeError, _password),
    "no deflate stream": (zlib.error, _no_deflate_stream),
    "longer than the archive": (EOFError, _longer_than_the_archive),
    "a name in no UTF-8": (UnicodeDecodeError, _name_in_no_utf8),
    "before the start": (ValueError, _before_the_start),
    "beyond every offset": (OverflowError, _beyond_every_offset),
}
"""By name: what `zipfile` raises while it reads the archive from memory, and what makes the archive."""


def unreadable(name: str, *, path: str = "solution.py") -> bytes:
    """One of `UNREADABLE`, with its one file at `path`."""
    return bytes(UNREADABLE[name][1](path))
