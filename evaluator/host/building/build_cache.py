"""Builds kept on disk, once per source and tool chain; the slots of a node share them."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from evaluator.contract import MachineCode
from evaluator.errors import EvaluatorError
from evaluator.host.building.build_record import BuildRecord

KEPT_BYTES = 8 * 1024**3
"""How many bytes all kept builds may take; the least recently used are removed first."""

_KEPT = 200
"""How many builds are kept."""

_RECORD, _CODE = "record.json", "code.json"


class BuildCache:
    """One folder per build, with its modules, its record, and its machine code once that was asked for.

    Args:
        folder: of all kept builds; need not exist yet.
        limit_bytes: the limit for all of them together.
    """

    def __init__(self, folder: Path, *, limit_bytes: int = KEPT_BYTES) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes

    def entry(self, key: str) -> Path:
        """The folder of the build called `key`, where it is kept."""
        return self._folder / key

    def get(self, key: str) -> BuildRecord | None:
        """The record of an earlier build; raises EvaluatorError where its modules were changed on disk."""
        try:
            # Before it is read, so that no other slot removes it meanwhile as long unused.
            os.utime(self.entry(key))
        except FileNotFoundError:
            return None
        kept = _read(self.entry(key))
        if kept is None:
            return None
        return msgspec.structs.replace(kept, result=msgspec.structs.replace(kept.result, cached=True, seconds=0.0))

    def put(self, key: str, record: BuildRecord, artefacts: dict[str, bytes]) -> None:
        """Keep a build, and remove others where they are too many: a reader finds all of a build or nothing."""
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".", dir=self._folder))
        for name, content in artefacts.items():
            path = partial / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (partial / _RECORD).write_text(record.to_json(), encoding="utf-8")
        try:
            partial.rename(self.entry(key))
        except OSError:  # another slot cached the same build first
            shutil.rmtree(partial)
        self._prune()

    def artefacts(self, key: str, record: BuildRecord) -> dict[str, bytes]:
        """The modules of a kept build by relative path."""
        return {name: (self.entry(key) / name).read_bytes() for name in record.result.artefacts}

    def code(self, key: str) -> MachineCode | None:
        """The machine code of a kept build, where it was listed."""
        try:
            return MachineCode.from_json((self.entry(key) / _CODE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def put_code(self, key: str, code: MachineCode) -> None:
        """Keep the machine code with its build."""
        # Another slot may list the same build: each writes a file of its own and moves it in one step.
        with tempfile.NamedTemporaryFile("w", dir=self.entry(key), encoding="utf-8", delete=False) as file:
            file.write(code.to_json())
        Path(file.name).replace(self.entry(key) / _CODE)

    def _prune(self) -> None:
        found = (_use(entry) for entry in self._folder.iterdir())
        total = 0
        for number, use in enumerate(sorted((use for use in found if use is not None), reverse=True)):
            total += use.size
            # The newest was just made and is about to be used.
            if number and (number >= _KEPT or total > self._limit_bytes):
                shutil.rmtree(use.entry, ignore_errors=True)


class _Use(NamedTuple):
    """When a build was last used, how many bytes it takes, and its folder."""

    at: float
    size: int
    entry: Path


def _use(entry: Path) -> _Use | None:
    """The use of a build; None where it is gone, because other slots and builders of the node remove builds, too."""
    try:
        size = sum(path.stat().st_size for path in entry.rglob("*") if path.is_file())
        return _Use(entry.stat().st_mtime, size, entry)
    except FileNotFoundError:
        return None


def _read(entry: Path) -> BuildRecord | None:
    """The cached build, if its modules still have the recorded bytes."""
    try:
        record = BuildRecord.from_json((entry / _RECORD).read_text(encoding="utf-8"))
        intact = all(
            hashlib.sha256((entry / name).read_bytes()).hexdigest() == digest
            for name, digest in record.result.artefacts.items()
        )
    except FileNotFoundError:
        return None
    if not intact:
        raise EvaluatorError(f"the cached build in {entry} was changed on disk; remove the folder")
    return record
