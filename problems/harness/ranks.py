"""Ranks that stay alive: one pool of gloo processes that runs any number of tasks, for tests and calibration."""

import multiprocessing
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, TypeVar

import torch
import torch.distributed as dist

Result = TypeVar("Result")

_COLLECTIVE_DEADLINE = timedelta(seconds=30)
_TASK_DEADLINE_S = 120.0


class RankFailure(RuntimeError):
    """A task raised on some rank, or a rank did not answer; the message holds the rank and its traceback."""


class Ranks:
    """`world_size` processes with a gloo process group, started once and closed by the context manager."""

    def __init__(self, world_size: int, *, deadline_s: float = _TASK_DEADLINE_S) -> None:
        self.world_size = world_size
        self._deadline_s = deadline_s
        self._folder = TemporaryDirectory(prefix="pkb-ranks-")
        context = multiprocessing.get_context("forkserver")
        # The server imports torch once; every rank is then a fork of it.
        context.set_forkserver_preload(["problems.harness.trials"])
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(world_size):
            near, far = context.Pipe()
            store = Path(self._folder.name) / "store"
            process = context.Process(target=_serve, args=(rank, world_size, str(store), far), daemon=True)
            process.start()
            far.close()
            self._pipes.append(near)
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, task: Callable[..., Result], *arguments: Any) -> list[Result]:
        """`task(*arguments)` on every rank at once; the results by rank. `task` must be importable by name.

        Raises:
            RankFailure: a rank raised or did not answer within `deadline_s`, two minutes by default.
        """
        for pipe in self._pipes:
            pipe.send((task, arguments))
        answers = [self._answer(rank) for rank in range(self.world_size)]
        failures = [f"rank {rank}:\n{text}" for rank, (ok, text) in enumerate(answers) if not ok]
        if failures:
            raise RankFailure("\n".join(failures))
        return [result for _, result in answers]

    def _answer(self, rank: int) -> tuple[bool, Any]:
        pipe = self._pipes[rank]
        try:
            if not pipe.poll(self._deadline_s):
                raise RankFailure(f"rank {rank} did not answer within {self._deadline_s:.0f} s")
            answer: tuple[bool, Any] = pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise RankFailure(f"rank {rank} died") from error
        return answer

    def close(self) -> None:
        """End every rank; no process or file of the pool remains."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        self._folder.cleanup()


def _serve(rank: int, world_size: int, store: str, pipe: Connection) -> None:
    """Join the process group, then run tasks until the pipe closes."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world_size, timeout=_COLLECTIVE_DEADLINE
    )
    while True:
        try:
            task, arguments = pipe.recv()
        except (EOFError, ConnectionError):
            break
        try:
            answer = (True, task(*arguments))
        except Exception:  # noqa: BLE001  whatever a task raises belongs to its caller, with its traceback
            answer = (False, traceback.format_exc())
        pipe.send(answer)
    dist.destroy_process_group()
