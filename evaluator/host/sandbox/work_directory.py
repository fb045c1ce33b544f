"""A judge's private folder, and the removal of folders that killed judges left."""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_PREFIX = "pkb-judge-"
_LOCK = "lock"
_SETTLED_S = 60.0
"""A folder this young may belong to a judge that has not locked it yet."""


class WorkDirectory:
    """A private folder that is locked as long as its owner lives."""

    def __init__(self, base: Path | None) -> None:
        """Make a folder below `base` (default: the system's temporary folder) and sweep there."""
        root = base or Path(tempfile.gettempdir())
        sweep(root)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove the folder with everything in it; a second time does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep(root: Path) -> None:
    """Remove the folders below `root` whose judges have ended without doing so."""
    for lock in root.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            if time.time() - lock.stat().st_mtime > _SETTLED_S and _is_free(lock):
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # another user's, or already removed


def _is_free(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
