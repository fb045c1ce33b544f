"""All processes of one sandbox, wherever they have moved: lists, measures and ends them."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable

from evaluator.host.hangs.incidents import RanksLost
from evaluator.host.process import procfs
from evaluator.host.sandbox.cgroups import Group

_CLEAN_S, _MOST_S = 30.0, 300.0
"""How long killed processes may take without one of them ending, and in all."""


class SandboxProcesses:
    """What descends from `first`, the process that started the sandbox.

    Its members are found by the control group where there is one. Else they are found by `marker`, a variable
    `NAME=value` in the environment of a sandbox without namespaces, or by the sandbox's PID namespace.
    """

    def __init__(self, first: subprocess.Popen[bytes], *, group: Group | None, marker: bytes | None) -> None:
        self._first = first
        self._group = group
        self._marker = marker
        self._namespace: str | None = None
        self._namespace_held: int | None = None

    def hold_namespace(self, pid: int) -> None:
        """Remember the PID namespace of `pid`, and keep it open, because the kernel reuses freed numbers.

        Raises:
            RanksLost: it cannot be opened, so processes left in it could not be found.
        """
        if self._marker is not None:
            return
        try:
            self._namespace_held = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise RanksLost(f"the sandbox's process namespace cannot be watched: {error}") from error
        self._namespace = procfs.namespace_of(pid)

    @property
    def have_ended(self) -> bool:
        """Whether the process that started the sandbox has ended, and the sandbox with it."""
        return self._first.poll() is not None

    @property
    def memory_kills(self) -> int:
        """How often the kernel ended one of them because the group had no memory left."""
        return self._group.memory_kills if self._group is not None else 0

    def descendants(self) -> list[int]:
        """All descendants of the sandbox's first process; complete while no submission is in it."""
        return procfs.descendants(self._first.pid)

    def members(self) -> list[int]:
        """Every process of the sandbox, also those that have left their parents."""
        marked = self._marked()
        return sorted({*self._group.members, *marked}) if self._group is not None else marked

    def _marked(self) -> list[int]:
        """The same without a control group."""
        if self._marker is not None:
            return procfs.members_with_variable(self._marker)
        if self._namespace is None or self._namespace == procfs.namespace_of(os.getpid()):
            return []
        return procfs.members_of_namespace(self._namespace)

    def busy_ns(self) -> int:
        """Processor time that everything in the sandbox has used so far.

        Without a control group that counts it, in steps of a clock tick, and without processes that have ended unless
        what started them waited for them.
        """
        used_ns = self._group.used_ns if self._group is not None else None
        if used_ns is not None:
            return used_ns
        ticks = sum(procfs.cpu_ticks(pid, with_children=True) for pid in self.members())
        return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Send all of them the signal that ends them, and do not wait: `kill` must follow."""
        for pid in set(self.members()) - {self._first.pid}:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def kill(self, *, within: Callable[[float], float] = lambda seconds: seconds) -> None:
        """End all of them, and return when none is left; raises EvaluatorError where one is still there.

        `within` shortens how long they may take.
        """
        # The others first: then the outermost process reaps the sandbox's init process, and ends.
        self.stop()
        try:
            self._first.wait(timeout=1.0 if self._namespace else 0.0)
        except subprocess.TimeoutExpired:
            # The process group, not the process: in its first moments bubblewrap has a child that would outlive it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._first.pid, signal.SIGKILL)
        if self._group is not None:
            self._group.kill()  # processes that were started meanwhile
        procfs.wait_until_gone(self._left, patience_s=_CLEAN_S, most_s=within(_MOST_S))
        if self._group is not None:
            self._group.remove()

    def _left(self) -> list[int]:
        """The processes that have not ended. The outermost one stays until the last of its namespace has ended."""
        outermost = [] if self.have_ended else [self._first.pid]
        return sorted({*outermost, *self.members()})

    def close(self) -> None:
        """Close the namespace."""
        if self._namespace_held is not None:
            os.close(self._namespace_held)
            self._namespace_held = None
