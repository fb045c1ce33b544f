"""The trusted ranks of a slot: oracle ranks, and two groups that run the reference, children of one process."""

import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.arena.protocol import BARRIER_BYTES
from evaluator.hardware.profiles import Profile
from evaluator.host.clock.call_clock import ClockPage, GateClock
from evaluator.host.machine import gpus
from evaluator.host.process import procfs
from evaluator.host.process.limited import end_session
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.oracle_group import OpenedSize, OracleGroup
from evaluator.host.ranks.reference_group import ReferenceGroup
from evaluator.host.ranks.trusted_client import TrustedRankClient
from evaluator.host.sandbox import bubblewrap, cpu_sets
from evaluator.host.settings import JudgeSettings

_ROOT = Path(__file__).parents[3]
_LOG_BYTES = 8192
_END_S = 10.0
"""How long the killed process may take to end."""


@dataclass(frozen=True, kw_only=True)
class HeldMemory:
    """Device memory that trusted ranks hold: now, and the maximum since a size was opened."""

    bytes: int
    peak_bytes: int


class TrustedRanks:
    """Ranks that serve many evaluations.

    Attributes:
        oracle: the ranks that draw inputs and compare outputs.
        reference: the ranks that run the reference, on the processors of sandbox ranks.
        recorder: others of the same kind, which record the reference. A profiler that once ran in a process may slow
            what it launches later, so those that are timed never run one.
    """

    def __init__(
        self,
        profile: Profile,
        settings: JudgeSettings,
        *,
        spawner: Spawner,
        work_dir: Path,
        clock: GateClock | None = None,
    ) -> None:
        """Let them import, in the background. On GPUs `clock` times the reference."""
        self._profile = profile
        self._settings = settings
        self._shares = cpu_sets.shares_for(profile)
        self._private = Path(tempfile.mkdtemp(prefix="trusted-", dir=work_dir))
        self._log = os.memfd_create("trusted", os.MFD_CLOEXEC)
        self._pages = {role: ClockPage() for role in ("oracle", "reference", "recorder")}
        start, self._start_word = os.pipe2(os.O_CLOEXEC)
        self._has_ranks = False
        inherited = [start]
        oracle, oracle_ranks = self._open("oracle", self._shares.oracle, inherited)
        reference, reference_ranks = self._open("reference", self._shares.sandbox, inherited)
        recorder, recorder_ranks = self._open("recorder", self._shares.sandbox, inherited)
        self._start_process([*oracle_ranks, *reference_ranks, *recorder_ranks], inherited, spawner, clock)
        self._clients = (oracle, reference, recorder)
        self.oracle = OracleGroup(oracle, clock=clock)
        self.reference = self._runs_reference("reference", reference, clock)
        self.recorder = self._runs_reference("recorder", recorder, clock)

    def _runs_reference(self, role: str, client: TrustedRankClient, clock: GateClock | None) -> ReferenceGroup:
        return ReferenceGroup(client, clock=clock, page=self._pages[role], limit_s=self._settings.oracle_s)

    def _open(
        self, role: str, cores: Sequence[Sequence[int]], inherited: list[int]
    ) -> tuple[TrustedRankClient, list[dict[str, object]]]:
        """The client of the ranks of one role, and their setups; the ranks' ends are added to `inherited`."""
        world_size = self._profile.world_size
        channels, described = [], []
        barrier = os.memfd_create("barrier", os.MFD_CLOEXEC)
        os.ftruncate(barrier, BARRIER_BYTES)
        inherited.append(barrier)
        for number in range(world_size):
            host_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            channels.append(host_end)
            inherited.append(child_end.detach())
            described.append(
                {
                    "rank": number,
                    "role": role,
                    "channel": inherited[-1],
                    "store": str(self._private / role),
                    "barrier": barrier,
                    "clock": self._pages[role].descriptor,
                    "threads": self._shares.threads(cores, world_size=world_size),
                    "cores": list(cores[number]) if cores else [],
                }
            )
        client = TrustedRankClient(
            role,
            channels,
            seconds=self._settings.oracle_s,
            busy_poll_s=self._shares.busy_poll_s,
            log_text=self._log_text,
        )
        return client, described

    def _start_process(
        self, ranks: list[dict[str, object]], inherited: list[int], spawner: Spawner, clock: GateClock | None
    ) -> None:
        """Start the process that forks them; descriptors in `inherited` go to the child and are closed here."""
        profile, shared = self._profile, [page.descriptor for page in self._pages.values()]
        if clock is not None:
            shared.append(clock.ends)
        orders = {
            "ranks": ranks,
            "start": inherited[0],
            "import_cores": list(self._shares.sandbox[-1][-2:]) if self._shares.sandbox else [],
            "world_size": profile.world_size,
            "device": profile.device,
            "gpus": profile.gpus,
            "capability": gpus.capability(profile),
            "process_group": profile.process_group,
            "ends": -1 if clock is None else clock.ends,
            "busy_poll_s": self._shares.busy_poll_s,
        }
        self._process = spawner.start(
            [sys.executable, "-m", "evaluator.oracle.launcher", json.dumps(orders)],
            descriptors=[*inherited, *shared],
            environment=_environment(profile),
            error_output=self._log,
            directory=str(_ROOT),
        )
        for descriptor in inherited:
            os.close(descriptor)

    @property
    def is_alive(self) -> bool:
        """Whether the ranks still run, and none of them owes an answer that nobody waited for."""
        return self._process.poll() is None and not any(client.owes for client in self._clients)

    def limit(self, within: Callable[[float], float] | None) -> None:
        """Shorten the time for every reply by `within`; None: do not."""
        for client in self._clients:
            client.limit(within)

    def start_ranks(self) -> None:
        """Let the ranks start, which uses the GPUs. In the background, and only once."""
        if not self._has_ranks:
            self._has_ranks = True
            with contextlib.suppress(BrokenPipeError):  # whoever waits for the ranks says that their process has ended
                os.write(self._start_word, b"s")

    def wait_until_ready(self) -> None:
        """Return once every rank has joined its process group; raises EvaluatorError."""
        self.start_ranks()
        for client in self._clients:
            client.wait_until_ready(self._settings.start_s)

    def open_size(self, *, problem: str, size: str, dtype: str, key: bytes) -> OpenedSize:
        """Point all ranks at a problem, size, dtype and secret; raises EvaluatorError."""
        self.reference.open(problem)
        return self.oracle.open_size(problem=problem, size=size, dtype=dtype, key=key)

    def memory(self) -> tuple[HeldMemory, ...]:
        """What those of every rank hold of its GPU, in the order of ranks; raises EvaluatorError."""
        replies = [[body for body, _ in client.ask({"command": "memory"})] for client in self._clients]
        return tuple(
            HeldMemory(
                bytes=sum(body["bytes"] for body in bodies), peak_bytes=sum(body["peak_bytes"] for body in bodies)
            )
            for bodies in zip(*replies, strict=True)
        )

    @property
    def processes(self) -> list[int]:
        """The launcher and its ranks."""
        return procfs.descendants(self._process.pid)

    def _log_text(self) -> str:
        size = os.fstat(self._log).st_size
        return os.pread(self._log, _LOG_BYTES, max(0, size - _LOG_BYTES)).decode("utf-8", "replace")

    def close(self) -> None:
        """End the ranks and free what the host held; raises EvaluatorError where they do not end."""
        for client in self._clients:
            client.close()
        try:
            # Ranks and launcher share a session that no process of a submission can join.
            end_session(self._process, f"the trusted ranks' process {self._process.pid}", seconds=_END_S)
        finally:
            os.close(self._start_word)
            os.close(self._log)
            for page in self._pages.values():
                page.close()
            shutil.rmtree(self._private, ignore_errors=True)


def _environment(profile: Profile) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH") if name in os.environ}
    ours = bubblewrap.environment(profile)
    return {
        **{name: value for name, value in ours.items() if name.startswith(("NCCL", "GLOO", "TORCH_SYMM", "NVSHMEM"))},
        **gpus.environment(profile),
        **kept,
    }
