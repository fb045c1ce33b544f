"""The sandbox of one submission: its folder, the ends of its ranks' channels, its processes."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from evaluator.arena import protocol
from evaluator.contract import SandboxLevel, SourceBundle
from evaluator.errors import EvaluatorError
from evaluator.host.building.builder import Built
from evaluator.host.clock.call_clock import ClockPage
from evaluator.host.machine import gpus
from evaluator.host.process import memory_files
from evaluator.host.process.logs import LogDrain, clean
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.sandbox_processes import SandboxProcesses
from evaluator.host.resources import Resources
from evaluator.host.sandbox import bubblewrap
from evaluator.host.settings import JudgeSettings

_MARKER = "PKB_GANG"
_PROCESSES_OF_A_CPU_RANK = 256
"""With their threads. The kernel takes up to 0.17 s to end one with a gigabyte of shared memory mapped (2 cores,
22 November 2026)."""


class RankSandbox:
    """Starts one sandbox with the launcher of its ranks, and holds the host's resources for it.

    Attributes:
        resources: the slot's.
        ends: the host's ends, per rank in order: the socket of its channel, which the creator of the channel closes,
            and the descriptor of its status page.
        exits: the socket on which the launcher reports how ranks ended.
        clock_page: through it the calls of the ranks are timed on GPUs.
        logs: what the ranks print, one keeper per rank.
        processes: everything that runs in the sandbox.
    """

    def __init__(self, resources: Resources, *, spawner: Spawner, work_dir: Path) -> None:
        """Start it; the launcher gets ready in the background. Raises EvaluatorError where it cannot be started."""
        self.resources = resources
        self._private = Path(tempfile.mkdtemp(prefix="group-", dir=work_dir))
        # Ranks run as nobody inside; the directory's own mode must let them pass.
        self._private.chmod(0o755)
        bubblewrap.write_private(self._private)
        self._layout = bubblewrap.layout(resources.confinement, private=self._private)
        self._is_confined = resources.confinement.level is not SandboxLevel.NONE
        self._marker = f"{_MARKER}={self._private.name}"
        self._group = bubblewrap.new_group(
            resources.confinement, _limited(resources), shares=resources.shares, name=self._private.name
        )
        inherited: list[int] = []
        try:
            self._start(inherited, spawner)
        except OSError as error:
            raise EvaluatorError(f"a worker group could not be started: {error}") from error
        finally:
            for descriptor in inherited:
                os.close(descriptor)

    def _start(self, inherited: list[int], spawner: Spawner) -> None:
        """Start the sandbox; descriptors in `inherited` go to the child and are closed here."""
        barrier = memory_files.create("barrier", protocol.BARRIER_BYTES)
        inherited.append(barrier)
        self.exits, exits_child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        exits = exits_child.detach()
        inherited.append(exits)
        self.clock_page = ClockPage()
        described = self._open_ends(inherited, barrier=barrier)
        self._launcher_log = os.memfd_create("launcher", os.MFD_CLOEXEC)
        call_filter = bubblewrap.open_filter() if self._is_confined else None
        if call_filter is not None:
            inherited.append(call_filter)
        command = bubblewrap.command(
            self.resources.confinement,
            [self._layout.launcher, json.dumps(self._orders(described, exits=exits))],
            private=self._private,
            profile=self.resources.profile,
            settings=self.resources.settings,
            gpus=self.resources.gpus,
            call_filter=call_filter,
            group=self._group,
        )
        first: subprocess.Popen[bytes] = spawner.start(
            command,
            descriptors=[*inherited, self.clock_page.descriptor, *(status_page for _, status_page in self.ends)],
            environment=self._environment(),
            error_output=self._launcher_log,
        )
        marker = None if self._is_confined else self._marker.encode()
        self.processes = SandboxProcesses(first, group=self._group, marker=marker)

    def _open_ends(self, inherited: list[int], *, barrier: int) -> list[dict[str, int]]:
        """Make channel, status page and log of every rank, and return the launcher's ends by name."""
        pipes, described = [], []
        ends: list[tuple[socket.socket, int]] = []
        for number in range(self.resources.profile.world_size):
            host_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            status_page = memory_files.create("status_page", protocol.STATUS_BYTES)
            log_read, log_write = os.pipe()
            pipes.append(log_read)
            ends.append((host_end, status_page))
            child = child_end.detach()
            inherited += [child, log_write]
            own = {"rank": number, "channel": child, "status_page": status_page, "log": log_write}
            described.append({**own, "barrier": barrier, "clock": self.clock_page.descriptor})
        self.ends = tuple(ends)
        self.logs = LogDrain(pipes, limit=self.resources.settings.log_bytes)
        return described

    def _orders(self, described: list[dict[str, int]], *, exits: int) -> dict[str, object]:
        profile, settings, shares = self.resources.profile, self.resources.settings, self.resources.shares
        return {
            "ranks": described,
            "exits": exits,
            "world_size": profile.world_size,
            "device": profile.device,
            "gpus": profile.gpus,
            "capability": gpus.capability(profile),
            "process_group": profile.process_group,
            "threads": shares.threads(shares.sandbox, world_size=profile.world_size),
            "cores": shares.sandbox,
            "busy_poll_s": shares.busy_poll_s,
            "source": self._layout.source,
            "store": self._layout.store,
            "compat": self._layout.compat,
            "limits": {
                "file_bytes": settings.file_bytes,
                "open_files": settings.open_files,
                # A CUDA context reserves far more address space than it uses, so GPU ranks have no such limit.
                "data_bytes": 0 if profile.device == "cuda" else self.memory_limit // profile.world_size,
            },
        }

    def _environment(self) -> dict[str, str]:
        if self._is_confined:
            return {}
        home = bubblewrap.home_without_sandbox(self._private, self.resources.confinement)
        name, _, value = self._marker.partition("=")
        own = {name: value, "PKB_BUILT": str(self._private / "built"), "PKB_EXTENSION_CACHE": str(home / "extensions")}
        return bubblewrap.environment(self.resources.profile, home=str(home)) | own

    @property
    def folder(self) -> str:
        """The name of its private folder in the work directory."""
        return self._private.name

    @property
    def source(self) -> str:
        """The folder of the submission as the ranks see it."""
        return self._layout.source

    @property
    def memory_limit(self) -> int:
        """The memory limit of all its processes together, in bytes."""
        return bubblewrap.memory_limit(self.resources.settings)

    @property
    def launcher_text(self) -> str:
        """The head of what launcher and bubblewrap printed, without control characters."""
        return clean(os.pread(self._launcher_log, 4096, 0).decode("utf-8", "replace"))

    def fork_ranks(self) -> None:
        """Let the launcher fork the ranks once it has imported torch; a launcher that has gone is noticed later."""
        with contextlib.suppress(OSError):
            self.exits.send(b"f")

    def hand_over(self, bundle: SourceBundle, *, built: Built | None = None) -> None:
        """Put the submission and its built modules where the ranks can read them; the folder was empty before."""
        root = self._private / "source"
        for file in bundle.files:
            path = root / file.path
            if not path.resolve().is_relative_to(root.resolve()):
                raise EvaluatorError(f"the submission's path {file.path!r} leads outside")
            bubblewrap.readable_file(path, file.text)
        if built is not None:
            built.copy_to(self._private / "built")

    def close(self) -> None:
        """Free the host's resources; its processes have ended before."""
        self.exits.close()
        self.logs.close()
        for _, status_page in self.ends:
            os.close(status_page)
        os.close(self._launcher_log)
        self.clock_page.close()
        self.processes.close()
        shutil.rmtree(self._private, ignore_errors=True)


def _limited(resources: Resources) -> JudgeSettings:
    """The slot's settings; with fewer processes for ranks without GPUs, because every process takes time to end."""
    most = resources.profile.world_size * _PROCESSES_OF_A_CPU_RANK if resources.profile.device == "cpu" else sys.maxsize
    return replace(resources.settings, processes=min(resources.settings.processes, most))
