"""What was done, one JSON record per line, so that an interrupted command goes on where it stopped.

A record is on the disk before the next thing is done. A last line that was cut off by a crash is dropped: what it
would have recorded is done again.
"""

import fcntl
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import msgspec

from .errors import UsageError

Entry = TypeVar("Entry")


class Journal(Generic[Entry]):
    """The records of one file, and a lock that keeps a second command from writing to it; a context manager."""

    def __init__(self, path: Path, entry_type: Any) -> None:
        """Open or create the journal; `entry_type` is a Struct or a union of tagged ones.

        Raises:
            UsageError: another command has it open, or it holds something else.
        """
        self.path = path
        self._lock = threading.Lock()
        self._decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(entry_type)
        try:
            self._file = path.open("ab+")
        except OSError as error:
            raise UsageError(f"{path} cannot be written ({error.strerror}).") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise UsageError(f"Another pkb process uses {path}; wait for it or end it.") from error
        self.entries = self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, entry: Entry) -> None:
        """Record `entry`; it is on the disk when this returns. Threads may call at once."""
        self.extend([entry])

    def extend(self, entries: Sequence[Entry]) -> None:
        """Record several at once."""
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        with self._lock:
            self._file.write(lines)
            self._file.flush()
            os.fsync(self._file.fileno())
            self.entries.extend(entries)

    def _read(self) -> list[Entry]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)
        entries = []
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            try:
                entries.append(self._decoder.decode(line))
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                self._file.close()
                raise UsageError(
                    f"{self.path}, line {number} is not a record of pkb ({error}). Name another file."
                ) from error
        return entries
