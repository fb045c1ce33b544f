"""Attempts as vendors keep them: JSON Lines, or solution.py in folders SLUG/SAMPLE[/STEP], zipped or not."""

import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from .errors import UsageError
from .packing import ENTRY, SUFFIXES
from .runs import NewAttempt

Names = list[str]
Reader = Callable[[str], bytes]


def read_attempts(path: Path) -> Iterator[NewAttempt]:
    """The attempts that `path` holds, one after the other; raises UsageError that names the line or file at fault."""
    if path.is_dir():
        names = [found.relative_to(path).as_posix() for found in sorted(path.rglob("*")) if found.is_file()]
        return _tree(names, lambda name: (path / name).read_bytes(), path)
    if path.suffix == ".zip":
        return _archive(path)
    if path.suffix in {".jsonl", ".ndjson"}:
        return _lines(path)
    raise UsageError(f"{path} is neither .jsonl, .zip nor a folder of SLUG/SAMPLE/{ENTRY}.")


def _lines(path: Path) -> Iterator[NewAttempt]:
    decoder = msgspec.json.Decoder(NewAttempt)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                raise UsageError(
                    f"{path}, line {number} is not an attempt: {error}. A line is a JSON object "
                    "with problem and source, and sample and step where there are several."
                ) from error


def _archive(path: Path) -> Iterator[NewAttempt]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if not name.endswith("/"))
            yield from _tree(names, archive.read, path)
    except zipfile.BadZipFile as error:
        raise UsageError(f"{path} is not a zip archive ({error}).") from error


def _tree(names: Names, read: Reader, origin: Path) -> Iterator[NewAttempt]:
    """Attempts from paths; a folder with solution.py is one, what lies below it belongs to it."""
    roots = {str(PurePosixPath(name).parent) for name in names if PurePosixPath(name).name == ENTRY}
    files: dict[str, Names] = defaultdict(list)
    for name in names:
        above = [str(parent) for parent in PurePosixPath(name).parents if str(parent) in roots]
        if above and PurePosixPath(name).suffix in SUFFIXES:
            files[above[-1]].append(name)
    if not files:
        raise UsageError(f"{origin} has no SLUG/SAMPLE/{ENTRY}.")
    for root in sorted(files, key=_order):
        problem, sample, step = _identity(root, origin)
        texts = {name[len(root) + 1 :]: _text(read(name), name, origin) for name in files[root]}
        yield NewAttempt(problem=problem, sample=sample, step=step, files=texts)


def _identity(root: str, origin: Path) -> tuple[str, int, int]:
    slug, *numbers = root.split("/")
    if len(numbers) not in {1, 2} or not all(number.isdecimal() for number in numbers):
        raise UsageError(f"{origin}: {root}/{ENTRY} is not at SLUG/SAMPLE/{ENTRY} or SLUG/SAMPLE/STEP/{ENTRY}.")
    sample, *step = map(int, numbers)
    return slug, sample, step[0] if step else 0


def _order(root: str) -> tuple[str, tuple[int, ...]]:
    slug, *numbers = root.split("/")
    return slug, tuple(int(number) for number in numbers if number.isdecimal())


def _text(content: bytes, name: str, origin: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{origin}: {name} is not UTF-8 (byte {error.start}).") from error
