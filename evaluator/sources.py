"""Reading a submission from disk: one Python file, a directory, or a zip archive."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from evaluator.contract import SourceBundle, SourceFile
from evaluator.judging import source_files
from evaluator.judging.source_files import ARCHIVE_ERRORS, can_stop_unpacking, is_folder, why_unreadable
from evaluator.judging.source_rules import MAX_BYTES

_ENDINGS = frozenset({".py", ".cu", ".cuh", ".cpp", ".h"})
_MAX_FILES = 200


class SourceError(ValueError):
    """The path holds no valid submission; the text says why."""


def read_source(path: Path) -> SourceBundle:
    """The submission at `path`; a single file counts as solution.py whatever its name.

    Raises:
        SourceError: it cannot be read, is not text, is too large, or leads outside.
    """
    if path.is_dir():
        named = list(_directory(path))
    elif path.suffix == ".zip":
        named = list(_archive(path))
    else:
        named = [(SourceBundle.ENTRY, _bytes_of(path))]
    if sum(len(raw) for _, raw in named) > MAX_BYTES:
        raise SourceError(f"{path} holds more than {MAX_BYTES // 1024} KB of source")
    for name, fault in source_files.faults([name for name, _ in named]):
        raise SourceError(f"{path} contains the path {name!r}: {fault}")
    files = (SourceFile(path=name, text=_decoded(name, raw)) for name, raw in named)
    return SourceBundle(files=tuple(sorted(files, key=lambda file: file.path)))


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error


def _directory(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix in _ENDINGS and not path.is_symlink():
            yield path.relative_to(root).as_posix(), _bytes_of(path)


def _archive(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not is_folder(member)]
            _check_members(path, members)
            for member in members:
                yield member.filename, archive.read(member)
    except SourceError:
        raise
    except ARCHIVE_ERRORS as error:
        raise SourceError(f"cannot read {path} as a zip archive: {why_unreadable(error)}") from error


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > _MAX_FILES or sum(member.file_size for member in members) > MAX_BYTES:
        raise SourceError(f"{path} holds more than {_MAX_FILES} files or {MAX_BYTES // 1024} KB")
    for member in members:
        if not can_stop_unpacking(member):
            raise SourceError(f"{path}: pack {member.filename!r} with deflate, or without compression")


def _decoded(name: str, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{name} is not UTF-8 text ({error.reason} at byte {error.start})") from error
    if "\0" in text:
        raise SourceError(f"{name} contains a NUL byte and is not source text")
    return text
