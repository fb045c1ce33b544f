"""Control groups: limits on memory, processes and processors of a whole sandbox, and one kill for all of it.

Uses version 2 of the kernel's interface where it has the controllers, else version 1. Without either there is no limit
here: `Hierarchy.detail` says so, and the node's doctor shows it.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.host.process import procfs

_PREFIX = "pkb-"
_LEAF = "node"
_SETTLED_S = 60.0
"""A group this young may belong to a sandbox that has not entered it yet."""
_REMOVE_S = 5.0
_WANTED = ("memory", "pids", "cpu", "cpuset")
_NEEDED = frozenset({"memory", "pids"})
_PERIOD_US = 100_000


@dataclass(frozen=True, kw_only=True)
class GroupLimits:
    """The limits of everything in one group together.

    Attributes:
        cores: how many processors' time.
        processors: by number, the only processors that it may run on, whatever affinity a process sets; empty for all.
            Without the controller `cpuset` they are not enforced.
    """

    memory_bytes: int
    processes: int
    cores: int
    processors: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The folders in which this process may make groups.

    Attributes:
        folders: the folder of each usable controller; with version 2 several share one.
        versions: the interface's version (1 or 2) by controller.
        core: a folder of version 2 for killing a whole group at once, with or without controllers; None without.
    """

    folders: Mapping[str, Path] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    core: Path | None = None

    @property
    def limits_hold(self) -> bool:
        """Whether both memory and processes can be limited."""
        return set(self.folders) >= _NEEDED

    @property
    def detail(self) -> str:
        """What is used, and what is missing, in words."""
        used = [f"{name} (version {self.versions[name]})" for name in _WANTED if name in self.folders]
        missing = [name for name in _WANTED if name not in self.folders]
        words = f"uses {', '.join(used)}" if used else ""
        if missing:
            words += f"{'; ' if words else ''}no usable controller for {', '.join(missing)}"
        return words if self.core is not None else f"{words}; no cgroup.kill"

    def new(self, name: str, limits: GroupLimits) -> "Group":
        """An empty group with limits; raises OSError."""
        return Group(self, name, limits)


class Group:
    """One group in every hierarchy that is used."""

    def __init__(self, hierarchy: Hierarchy, name: str, limits: GroupLimits) -> None:
        self._hierarchy = hierarchy
        self._name = f"{_PREFIX}{name}"
        # A group of version 1 without processors cannot be entered.
        folders = {which: base for which, base in hierarchy.folders.items() if which != "cpuset" or limits.processors}
        bases = {*folders.values(), *([hierarchy.core] if hierarchy.core is not None else [])}
        self._folders = sorted(base / self._name for base in bases)
        for folder in self._folders:
            folder.mkdir()
        try:
            for controller in folders:
                self._limit(controller, limits)
        except OSError:
            self.remove()
            raise

    @property
    def entrances(self) -> tuple[str, ...]:
        """Files to which a process writes its number to enter; its children are born inside."""
        return tuple(str(folder / "cgroup.procs") for folder in self._folders)

    @property
    def members(self) -> list[int]:
        """Every process inside."""
        found: set[int] = set()
        for folder in self._folders:
            with contextlib.suppress(OSError):
                found.update(map(int, (folder / "cgroup.procs").read_text().split()))
        return sorted(found)

    @property
    def memory_kills(self) -> int:
        """How often the kernel ended a process inside because the group had no memory left."""
        file = "memory.events" if self._version("memory") == 2 else "memory.oom_control"
        text = self._read("memory", file)
        pairs = (line.split() for line in text.splitlines())
        return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == "oom_kill"), 0)

    @property
    def used_ns(self) -> int | None:
        """Processor time of all processes that ever ran inside, also those never waited for; None without version 2."""
        if self._hierarchy.core is None:
            return None
        try:
            lines = (self._hierarchy.core / self._name / "cpu.stat").read_text().splitlines()
        except OSError:
            return None
        pairs = (line.split() for line in lines)
        return next((int(pair[1]) * 1000 for pair in pairs if pair[0] == "usage_usec"), None)

    def kill(self) -> None:
        """End every process inside; with version 2 in one step that no fork can escape."""
        core = self._hierarchy.core
        if core is not None:
            with contextlib.suppress(OSError):
                _write(core / self._name / "cgroup.kill", "1")

    def remove(self) -> None:
        """Remove the group once it is empty; the next sweep removes one that the kernel still uses."""
        deadline = time.monotonic() + _REMOVE_S
        left = list(self._folders)
        while left and time.monotonic() < deadline:
            left = [folder for folder in left if not _is_removed(folder)]
            if left:
                time.sleep(0.005)

    def _limit(self, controller: str, limits: GroupLimits) -> None:
        folder = self._hierarchy.folders[controller] / self._name
        if controller == "cpuset":
            _bind(folder, self._version(controller), limits.processors)
            return
        for file, value in _settings(controller, self._version(controller), limits):
            path = folder / file
            if path.exists():
                _write(path, value)

    def _version(self, controller: str) -> int:
        return self._hierarchy.versions.get(controller, 0)

    def _read(self, controller: str, file: str) -> str:
        base = self._hierarchy.folders.get(controller)
        try:
            return (base / self._name / file).read_text() if base is not None else ""
        except OSError:
            return ""


def _settings(controller: str, version: int, limits: GroupLimits) -> list[tuple[str, str]]:
    """Files and values that set a controller's limit; a file that the kernel does not have is skipped."""
    memory, quota = str(limits.memory_bytes), str(limits.cores * _PERIOD_US)
    if controller == "pids":
        return [("pids.max", str(limits.processes))]
    if controller == "memory":
        if version == 2:
            return [("memory.max", memory), ("memory.swap.max", "0")]
        return [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)]
    if limits.cores >= (os.cpu_count() or 1):
        return []
    return [("cpu.max", f"{quota} {_PERIOD_US}")] if version == 2 else [("cpu.cfs_quota_us", quota)]


def _bind(folder: Path, version: int, processors: Sequence[int]) -> None:
    """Keep what is in the group `folder` to these processors; version 1 also needs its memory nodes."""
    if not processors:
        return
    if version == 1:
        _write(folder / "cpuset.mems", (folder.parent / "cpuset.mems").read_text().strip())
    _write(folder / "cpuset.cpus", ",".join(map(str, processors)))


def find() -> Hierarchy:
    """Where this process may make groups, found by making one."""
    folders: dict[str, Path] = {}
    versions: dict[str, int] = {}
    core = None
    mounts = tuple(_mounts())
    for mount in (mount for mount, controllers in mounts if controllers is None):
        core, found = _core_and_controllers(mount, core)
        folders |= found
        versions |= dict.fromkeys(found, 2)
    for mount, controllers in mounts:
        for controller in (controllers or frozenset()) & set(_WANTED):
            folder = mount / _own_path(controller).lstrip("/")
            if controller not in folders and _can_make_groups(folder, controller, 1):
                folders[controller], versions[controller] = folder, 1
    for folder in {*folders.values(), *([core] if core is not None else [])}:
        sweep(folder)
    return Hierarchy(folders=folders, versions=versions, core=core)


def _core_and_controllers(mount: Path, core: Path | None) -> tuple[Path | None, dict[str, Path]]:
    """Version 2 at `mount`: the folder for groups, and the folder in which each controller can limit them.

    The first folder that gives all controllers is taken; without one, `core` or the first in which groups can be made.
    """
    for folder in _candidates(mount, _own_path("")):
        given = _enabled(folder)
        if not _can_make_groups(folder):
            continue
        if given >= _NEEDED:
            usable = {name for name in given & set(_WANTED) if _can_make_groups(folder, name, 2)}
            return folder, dict.fromkeys(usable, folder)
        core = core or folder
    return core, {}


def enter_leaf_group() -> None:
    """Move a service's processes into a leaf group below the service's own group.

    Version 2 gives controllers only to groups without processes, but a service manager puts the service right into the
    group that it delegates. Does nothing on version 1, or in a group that other services share.
    """
    for mount, controllers in _mounts():
        folder = mount / _own_path("").lstrip("/")
        with contextlib.suppress(OSError):
            if controllers is None and folder != mount and _is_all_ours(folder):
                leaf = folder / _LEAF
                leaf.mkdir(exist_ok=True)
                for pid in (folder / "cgroup.procs").read_text().split():
                    _write(leaf / "cgroup.procs", pid)


def _mounts() -> Iterator[tuple[Path, frozenset[str] | None]]:
    """Mounted hierarchies: version 1 with its controllers, version 2 with None."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            yield Path(before.split()[4]), None
        elif kind == "cgroup":
            yield Path(before.split()[4]), frozenset(options.split(","))


def _own_path(controller: str) -> str:
    """The group of this process; the empty controller means version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path
    return "/"


def _candidates(mount: Path, own: str) -> list[Path]:
    """This process's own group, and the one above: a delegating service puts its process into a group below."""
    folder = mount / own.lstrip("/")
    return [folder] if folder == mount else [folder, folder.parent]


def _enabled(folder: Path) -> set[str]:
    """The controllers of groups below `folder`, after enabling those we want."""
    try:
        offered = set((folder / "cgroup.controllers").read_text().split())
        control = folder / "cgroup.subtree_control"
        missing = sorted(offered & set(_WANTED) - set(control.read_text().split()))
        for controller in missing:
            with contextlib.suppress(OSError):  # busy: the folder itself has processes
                _write(control, f"+{controller}")
        return set(control.read_text().split())
    except OSError:
        return set()


def _is_all_ours(folder: Path) -> bool:
    """Whether a group holds this process, and beside it only processes above or below it: a service's own group."""
    inside = set(map(int, (folder / "cgroup.procs").read_text().split()))
    return os.getpid() in inside and inside <= _family(os.getpid())


def _family(pid: int) -> set[int]:
    above, parent = {pid}, procfs.parent_of(pid)
    while parent:
        above.add(parent)
        parent = procfs.parent_of(parent)
    return above | set(procfs.descendants(pid))


def _can_make_groups(folder: Path, controller: str = "", version: int = 0) -> bool:
    """Whether a group can be made in `folder`, and with `cpuset` be limited to processors."""
    trial = folder / f"{_PREFIX}trial-{os.getpid()}-{threading.get_ident()}"
    try:
        trial.mkdir()
        try:
            if controller == "cpuset":
                _bind(trial, version, sorted(os.sched_getaffinity(0)))
        finally:
            trial.rmdir()
    except OSError:
        return False
    return True


def sweep(folder: Path) -> None:
    """Remove the empty groups that killed judges left in `folder`."""
    for left in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _SETTLED_S:
                left.rmdir()


def _is_removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _write(path: Path, text: str) -> None:
    # One write without truncation: the kernel takes the value, and refuses flags that files have.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
