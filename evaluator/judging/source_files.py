"""Which files a submission may have: their paths, so that all can store them in one folder, and how they are packed."""

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

MAX_PATH_BYTES = 200
"""Of a whole path in UTF-8; file systems take 255 bytes for one name."""


def faults(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with `paths`, each fault as the path and a sentence; nothing where all can be written."""
    seen: dict[str, str] = {}
    for path in paths:
        if (fault := _alone(path)) is not None:
            yield path, fault
        # Case is folded because two such files would be one on some systems.
        elif path.lower() in seen:
            yield path, "this path stands twice"
        else:
            seen[path.lower()] = path
    for path in paths:
        above = (str(folder).lower() for folder in PurePosixPath(path).parents)
        if (file := next((seen[folder] for folder in above if folder in seen), None)) is not None:
            yield path, f"{file!r} is a file and cannot be a folder as well"


def _alone(path: str) -> str | None:
    """What is wrong with one path by itself."""
    if not _is_writable(path):
        return f"a path has at most {MAX_PATH_BYTES} bytes of UTF-8"
    if path.startswith(("/", "~")) or ".." in PurePosixPath(path).parts or "\\" in path or ":" in path:
        return "this path leads outside the submission"
    if not path.isprintable() or str(PurePosixPath(path)) != path:
        return "this is not a plain path such as a/b.cu"
    return None


def _is_writable(path: str) -> bool:
    try:
        return 0 < len(path.encode()) <= MAX_PATH_BYTES
    except UnicodeEncodeError:
        return False


ARCHIVE_ERRORS = (
    zipfile.BadZipFile,  # no archive, a damaged directory or header, a wrong checksum
    RuntimeError,  # a file with a password; as NotImplementedError a later version of the format, or a patched file
    EOFError,  # a file is said to be longer than the archive
    zlib.error,  # packed bytes that are no deflate stream
    ValueError,  # a name that is not UTF-8; bytes before the archive's start
    OverflowError,  # bytes beyond the largest offset
    IndexError,  # a file with a password and without a name
    OSError,  # a file on disk that cannot be read, or bytes before its start
)
"""What `zipfile` raises for bytes that anyone may send. Below Exception these have no common base."""

_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def why_unreadable(error: Exception) -> str:
    """What one of `ARCHIVE_ERRORS` says, for the author."""
    if isinstance(error, EOFError | OverflowError | IndexError):  # without words, or with those of the interpreter
        return "a file has no name, or lies partly or wholly outside it"
    return str(error)


def is_folder(member: zipfile.ZipInfo) -> bool:
    """Whether an entry of an archive is a folder; `ZipInfo.is_dir` fails where it has no name at all."""
    return member.filename.endswith("/")


def can_stop_unpacking(member: zipfile.ZipInfo) -> bool:
    """Whether unpacking a file can be stopped at a size: it is packed with deflate, or not packed.

    Python unpacks bzip2 and LZMA by the block: a hundred bytes become hundreds of megabytes before one is counted.
    """
    return member.compress_type in _PACKINGS
