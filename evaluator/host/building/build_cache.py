"""Builds kept on disk, once per source and tool chain; the slots of a node share them.

The cache only saves time. What is missing there, damaged or removed meanwhile is built again, and a disk that takes
nothing costs no evaluation.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from evaluator.contract import ContractError, MachineCode
from evaluator.host.building.build_record import BuildRecord

logger = logging.getLogger(__name__)

KEPT_BYTES = 8 * 1024**3
"""How many bytes all kept builds may take; the least recently used are removed first."""

_KEPT = 200
"""How many builds are kept."""

_UNFINISHED = "."
"""How the names of folders begin that are being written or removed."""

_ABANDONED_S = 3600.0
"""An unfinished folder this old is of a process that was killed."""

_RECORD, _CODE = "record.json", "code.json"


@dataclass(frozen=True, kw_only=True)
class KeptBuild:
    """A build: its record, and its modules by relative path."""

    record: BuildRecord
    modules: Mapping[str, bytes]


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

    def get(self, key: str) -> KeptBuild | None:
        """An earlier build; None where there is none, or its files are not those that were kept."""
        entry = self.entry(key)
        try:
            # Before it is read, so that no other slot removes it meanwhile as long unused.
            os.utime(entry)
        except OSError:
            return None
        try:
            record = BuildRecord.from_json((entry / _RECORD).read_text(encoding="utf-8"))
            modules = {name: (entry / name).read_bytes() for name in record.result.artefacts}
        except (OSError, ContractError, UnicodeDecodeError) as error:
            # Half a folder would keep the next build out.
            logger.warning("the build kept in %s cannot be read and is made again: %s", entry, error)
            self._remove(entry)
            return None
        if any(hashlib.sha256(modules[name]).hexdigest() != digest for name, digest in record.result.artefacts.items()):
            logger.error("the build kept in %s was changed on disk and is made again", entry)
            self._remove(entry)
            return None
        result = msgspec.structs.replace(record.result, cached=True, seconds=0.0)
        return KeptBuild(record=msgspec.structs.replace(record, result=result), modules=modules)

    def put(self, key: str, build: KeptBuild) -> None:
        """Keep a build, and remove others where they are too many: a reader finds all of a build or nothing."""
        try:
            self._write(key, build)
            self._prune()
        except OSError as error:
            logger.warning("a build cannot be kept in %s: %s", self._folder, error)

    def code(self, key: str) -> MachineCode | None:
        """The machine code of a kept build, where it was listed."""
        try:
            return MachineCode.from_json((self.entry(key) / _CODE).read_text(encoding="utf-8"))
        except (OSError, ContractError, UnicodeDecodeError):
            return None

    def put_code(self, key: str, code: MachineCode) -> None:
        """Keep the machine code with its build, if that is still there."""
        draft = self.entry(key) / f"{_CODE}.{os.getpid()}.{time.monotonic_ns()}"
        try:
            draft.write_text(code.to_json(), encoding="utf-8")
            # Another slot may list the same build: each writes a file of its own and moves it in one step.
            draft.replace(self.entry(key) / _CODE)
        except OSError as error:
            logger.warning("machine code cannot be kept in %s: %s", self.entry(key), error)
            with contextlib.suppress(OSError):
                draft.unlink()

    def _write(self, key: str, build: KeptBuild) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._folder))
        try:
            for name, content in build.modules.items():
                path = partial / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            (partial / _RECORD).write_text(build.record.to_json(), encoding="utf-8")
            partial.rename(self.entry(key))
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            # Another slot may have cached the same build first.
            if not self.entry(key).is_dir():
                raise

    def _prune(self) -> None:
        found = (_use(entry) for entry in self._folder.iterdir())
        total = 0
        for number, (at, size, entry) in enumerate(sorted((use for use in found if use is not None), reverse=True)):
            total += size
            if entry.name.startswith(_UNFINISHED):
                # Another slot is writing or removing it.
                if time.time() - at > _ABANDONED_S:
                    shutil.rmtree(entry, ignore_errors=True)
            elif number and (number >= _KEPT or total > self._limit_bytes):
                self._remove(entry)

    def _remove(self, entry: Path) -> None:
        """Take a build away in one step, so that no reader finds half of it, nor a writer its place taken."""
        with contextlib.suppress(OSError):
            aside = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._folder))
            with contextlib.suppress(OSError):
                entry.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)


def _use(entry: Path) -> tuple[float, int, Path] | None:
    """When a build was last used, how many bytes it takes, and its folder; None where other slots have removed it."""
    try:
        size = sum(path.stat().st_size for path in entry.rglob("*") if path.is_file())
        return entry.stat().st_mtime, size, entry
    except OSError:
        return None
