"""From files on disk to what the site takes: one .py file, or a zip with solution.py at its root."""

import io
import zipfile
from pathlib import Path

from .errors import UsageError

ENTRY = "solution.py"
SUFFIXES = {".py", ".cu", ".cuh", ".cpp", ".h"}
Upload = tuple[str, bytes]
"""A file name that the site knows the kind by, and the bytes."""


def upload_of(path: Path) -> Upload:
    """A submission from a .py file, a .zip, or a folder with solution.py; raises UsageError."""
    try:
        if path.is_dir():
            return f"{path.resolve().name}.zip", _zipped(path)
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from error
    if path.suffix == ".py":
        return ENTRY, content
    if path.suffix == ".zip":
        return path.name, content
    raise UsageError(f"{path} is neither a .py file, a .zip nor a folder with {ENTRY}.")


def upload_of_text(source: str) -> Upload:
    """A submission from the text of solution.py."""
    return ENTRY, source.encode()


def _zipped(folder: Path) -> bytes:
    if not (folder / ENTRY).is_file():
        raise UsageError(f"{folder} has no {ENTRY}; every submission needs it.")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES:
                archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
    return buffer.getvalue()
