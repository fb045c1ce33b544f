"""What a judge has for itself on its machine, under a lock: a host user and a folder.

A sandbox that root starts belongs to root outside, whatever its user is inside. So a judge that runs as root starts its
sandboxes as its own user number, from a range that the operator reserves.
"""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Self

from evaluator.host.settings import DEFAULT_USERS

_LOCKS = Path("/run/lock")


class SlotUser:
    """A user number, locked as long as this process holds it."""

    def __init__(self, number: int, lock: int) -> None:
        self.number = number
        self._lock = lock

    @classmethod
    def take(cls, numbers: tuple[int, int] = DEFAULT_USERS) -> Self | None:
        """The first free number of a range (both ends included); None where this process is not root, or none is free.

        The lock ends with the process, however that ends.
        """
        if os.getuid() != 0:
            return None
        folder = _LOCKS if _LOCKS.is_dir() else Path("/tmp")  # noqa: S108 - opened without following links
        for number in range(numbers[0], numbers[1] + 1):
            lock = os.open(folder / f"pkb-user-{number}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
            else:
                return cls(number, lock)
        return None

    def close(self) -> None:
        """Release the number; a second time does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


_STAGE = """
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
user=$1; stage=$2; shift 2
mount -t tmpfs -o mode=755,size=1m stage "$stage" || exit 1
i=0
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir "$stage/$i"; else : > "$stage/$i"; fi || exit 1
  mount --bind "$1" "$stage/$i" || exit 1
  i=$((i + 1)); shift
done
shift
exec setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs -- "$@"
"""
"""Runs as root in its own mount namespace: shows the sources where any user may pass, then becomes the user."""

_STAGES = ("/mnt", "/media", "/srv")


class Stage:
    """Where a sandbox's sources are shown to its user, who may not pass through their own folders."""

    def __init__(self, user: int) -> None:
        self._user = user
        self._folder = next((path for path in _STAGES if Path(path).is_dir()), _STAGES[0])
        self._sources: list[str] = []

    def shown(self, source: str) -> str:
        """The path under which the user finds `source`."""
        if source not in self._sources:
            self._sources.append(source)
        return f"{self._folder}/{self._sources.index(source)}"

    def command(self, line: list[str]) -> list[str]:
        """`line` run as the user, with every requested source shown on the stage."""
        script = ["/bin/sh", "-c", _STAGE, "stage", str(self._user), self._folder, *self._sources, "--"]
        return [shutil.which("unshare") or "unshare", "--mount", "--propagation", "private", "--", *script, *line]


def as_user(user: int, line: list[str]) -> list[str]:
    """`line` run as another user who has no group and no privilege; works as root only."""
    setpriv = shutil.which("setpriv") or "setpriv"
    return [setpriv, "--reuid", str(user), "--regid", str(user), "--clear-groups", "--no-new-privs", "--", *line]


_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift; exec "$@"'


def inside_groups(line: list[str], entrances: tuple[str, ...]) -> list[str]:
    """`line` started inside the control groups with these entrances."""
    return ["/bin/sh", "-c", _ENTER, "enter", *entrances, "--", *line] if entrances else line


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
