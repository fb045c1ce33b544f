"""Which paths the files of a submission may have, so that every site and every node can store them in one folder."""

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
