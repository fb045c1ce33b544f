"""From what a browser or program sends to a `SourceBundle`, refusing everything a submission may not be."""

import io
import stat
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath

from django.conf import settings

from evaluator.contract import SourceBundle, SourceFile
from evaluator.judging.source_files import (
    ARCHIVE_ERRORS,
    MAX_PATH_BYTES,
    can_stop_unpacking,
    faults,
    is_folder,
    why_unreadable,
)
from portal.core.errors import Refusal

EXTENSIONS = (".py", ".cu", ".cuh", ".cpp", ".h")
"""What a file of a submission may be."""

MAX_FILES = 64
_CHUNK = 64 * 1024


class PathRefused(Refusal):
    """A path that no submission may have: the packing is at fault, not the source."""


def bundle_from_text(text: str) -> SourceBundle:
    """The bundle of a single `solution.py` that was typed or pasted.

    Raises:
        Refusal: the text is empty, holds a NUL byte, cannot be written as UTF-8 or is too large (413).
    """
    content = _encoded(text, "the editor", what="text")
    _check_total(len(content), "the editor")
    return SourceBundle(files=(SourceFile(path=SourceBundle.ENTRY, text=_text("the editor", content)),))


def bundle_from_files(files: Mapping[str, str]) -> SourceBundle:
    """The bundle of several texts by path; raises Refusal, or PathRefused where a path is at fault."""
    # As an archive, so that one set of rules applies to both.
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            content = _encoded(text, ascii(path), what="file")
            if len(_encoded(path, ascii(path), what="file")) > MAX_PATH_BYTES:  # from 64 KB on no zip could hold it
                raise _path_refused(path, f"This path is longer than {MAX_PATH_BYTES} bytes.", "Use shorter names.")
            archive.writestr(zipfile.ZipInfo(path), content)
    return bundle_from_upload("files.zip", buffer.getvalue())


def bundle_from_upload(name: str, content: bytes) -> SourceBundle:
    """The bundle of an uploaded file: one `.py`, which becomes `solution.py`, or a `.zip` with one at its root.

    Raises:
        Refusal: the file is empty, too large (413), not text, or of an unknown kind. An archive is damaged or
            encrypted, reaches outside itself, repeats a path, or has no `solution.py`.
    """
    if not content:
        raise _refusal(name, "The file is empty.", "Upload a .py file that defines solution(...).")
    lowered = name.lower()
    if lowered.endswith(".zip"):
        return _bundle_from_zip(name, content)
    if not lowered.endswith(".py"):
        raise _refusal(name, "This is neither a .py file nor a .zip.", "Upload solution.py, or a .zip that holds it.")
    _check_total(len(content), name)
    return SourceBundle(files=(SourceFile(path=SourceBundle.ENTRY, text=_text(name, content)),))


def _bundle_from_zip(name: str, content: bytes) -> SourceBundle:
    # The packed size is bounded first: reading the directory of a huge archive is work in itself.
    _check_total(len(content), name)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [member for member in archive.infolist() if not is_folder(member)]
            _check_members(name, members)
            files = _read_members(name, archive, members)
    except ARCHIVE_ERRORS as error:
        message = f"The archive cannot be read: {why_unreadable(error)}."
        raise _refusal(name, message, "Pack it again as an ordinary .zip, without a password.") from error
    if SourceBundle.ENTRY not in {file.path for file in files}:
        raise _refusal(
            name, "The archive has no solution.py at its root.", "Put solution.py at the top, outside any folder."
        )
    return SourceBundle(files=tuple(sorted(files, key=lambda file: file.path)))


def _encoded(text: str, name: str, *, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        message = f"The {what} holds characters that are not Unicode."
        raise _refusal(name, message, "Remove these characters.") from error


def check_packing(member: zipfile.ZipInfo) -> None:
    """Refuse a file of an archive that is packed in a way whose unpacking cannot be stopped at a size."""
    if not can_stop_unpacking(member):
        raise _refusal(
            member.filename,
            "This file uses a compression method that the site does not accept.",
            "Pack it again as an ordinary .zip.",
        )


def _check_members(name: str, members: list[zipfile.ZipInfo]) -> None:
    if not members:
        raise _refusal(name, "The archive holds no file.", "Put solution.py into it.")
    if len(members) > MAX_FILES:
        raise _refusal(name, f"The archive holds {len(members)} files.", f"Send at most {MAX_FILES} files.", status=413)
    for member in members:
        _check_path(member)
        check_packing(member)
    for path, fault in faults([member.filename for member in members]):
        raise _path_refused(path, f"The archive cannot be used: {fault}.", "Use plain, short paths, each only once.")
    _check_total(sum(member.file_size for member in members), name)


def _check_path(member: zipfile.ZipInfo) -> None:
    # ZipInfo cuts names at a NUL; the original shows whether there was one.
    path, original = member.filename, member.orig_filename
    if "\0" in original or "\\" in original:
        raise _path_refused(
            original, "This path leads outside the archive.", "Use plain relative paths such as a/b.cu."
        )
    if stat.S_IFMT(member.external_attr >> 16) not in {0, stat.S_IFREG}:
        raise _refusal(path, "This is a link or a device, not a file.", "Pack the file itself.")
    if member.flag_bits & 0x1:
        raise _refusal(path, "This file is encrypted.", "Pack the archive without a password.")
    if PurePosixPath(path).suffix not in EXTENSIONS:
        remedy = f"Only {', '.join(EXTENSIONS)} may be in the archive."
        raise _path_refused(path, "This type of file is not accepted.", remedy)


def _read_members(name: str, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> list[SourceFile]:
    # Declared sizes can lie, so what really comes out is counted as well.
    total = 0
    files = []
    for member in members:
        content = bytearray()
        with archive.open(member) as stream:
            while chunk := stream.read(_CHUNK):
                total += len(chunk)
                _check_total(total, name)
                content += chunk
        files.append(SourceFile(path=member.filename, text=_text(member.filename, bytes(content), may_be_empty=True)))
    return files


def _text(name: str, content: bytes, *, may_be_empty: bool = False) -> str:
    if b"\0" in content:
        raise _refusal(name, "The file holds NUL bytes, so it is not source text.", "Upload the source itself.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"The file is not UTF-8 text (byte {error.start})."
        raise _refusal(name, message, "Save it as UTF-8.") from error
    is_entry = PurePosixPath(name).name == SourceBundle.ENTRY or not may_be_empty
    if is_entry and not text.strip():
        raise _refusal(name, "The file is empty.", "Define solution(...) in it.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _check_total(size: int, name: str) -> None:
    if size > settings.SUBMISSION_MAX_BYTES:
        limit = settings.SUBMISSION_MAX_BYTES // 1024
        raise _refusal(
            name, f"The files are larger than {limit} KB in all.", f"Keep them within {limit} KB.", status=413
        )


def _path_refused(value: str, message: str, remedy: str) -> PathRefused:
    return PathRefused(field="file", value=value, message=message, remedy=remedy)


def _refusal(value: str, message: str, remedy: str, *, status: int = 422) -> Refusal:
    return Refusal("file", value, message, remedy, status=status)
