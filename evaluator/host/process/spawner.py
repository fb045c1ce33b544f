"""Starts child processes from one thread that lives as long as its owner.

The kernel's parent-death signal follows the thread that forked: it would kill a child of a short-lived thread when
that thread ends.
"""

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self


class Spawner:
    """Starts processes that end with this process, and survive the calling thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")

    def start(
        self,
        command: Sequence[str],
        *,
        descriptors: Sequence[int],
        environment: Mapping[str, str],
        error_output: int,
        directory: str | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `command` in a session of its own with an empty standard input and just these descriptors."""
        started: Future[subprocess.Popen[bytes]] = self._thread.submit(
            subprocess.Popen,
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=error_output,
            stderr=error_output,
            pass_fds=tuple(descriptors),
            env=dict(environment),
            start_new_session=True,
            cwd=directory,
        )
        return started.result()

    def close(self) -> None:
        """End the thread; children that are still running get their parent's death signal."""
        self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
