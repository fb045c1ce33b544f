"""How a submission may be packed as a zip archive, and how reading a stranger's archive can fail."""

import zipfile
import zlib

ARCHIVE_ERRORS = (
    zipfile.BadZipFile,  # no archive, a damaged directory or header, a wrong checksum
    RuntimeError,  # a file with a password; as NotImplementedError a later version of the format, or a patched file
    EOFError,  # a file is said to be longer than the archive
    zlib.error,  # packed bytes that are no deflate stream
    ValueError,  # a name that is not UTF-8; bytes before the archive's start
    OverflowError,  # bytes beyond the largest offset
    OSError,  # a file on disk that cannot be read, or bytes before its start
)
"""What `zipfile` raises for bytes that anyone may send. Below Exception these have no common base."""

_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def why_unreadable(error: Exception) -> str:
    """What one of `ARCHIVE_ERRORS` says, for the author."""
    if isinstance(error, EOFError | OverflowError):  # without words of their own, or with those of the interpreter
        return "a file lies partly or wholly outside it"
    return str(error)


def is_folder(member: zipfile.ZipInfo) -> bool:
    """Whether an entry of an archive is a folder; `ZipInfo.is_dir` fails where it has no name at all."""
    return member.filename.endswith("/")


def can_stop_unpacking(member: zipfile.ZipInfo) -> bool:
    """Whether unpacking a file can be stopped at a size: it is packed with deflate, or not packed.

    Python unpacks bzip2 and LZMA by the block: a hundred bytes become hundreds of megabytes before one is counted.
    """
    return member.compress_type in _PACKINGS
