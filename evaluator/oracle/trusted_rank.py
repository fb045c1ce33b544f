"""The base of all trusted ranks: they join a process group and answer the host's commands until it has gone."""

import errno
import fcntl
import os
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from evaluator.arena.process_group import Membership, join
from evaluator.oracle import messages

Reply = tuple[messages.Body, list[int]]
Handler = Callable[[messages.Body, list[int]], Reply]
"""Executes a command with its descriptors, which the caller closes."""


def in_turns(handler: Handler, *, file: Path, free: Callable[[], None]) -> Handler:
    """`handler` for a device that several processes share: where it has too little memory for all, they take turns.

    A process that got none releases its own by `free`, and begins again while no other one executes such a handler.
    """

    def answer(message: messages.Body, descriptors: list[int]) -> Reply:
        with file.open("w") as turns:
            fcntl.flock(turns, fcntl.LOCK_SH)
            with suppress(torch.OutOfMemoryError):
                return handler(message, descriptors)
            free()
            fcntl.flock(turns, fcntl.LOCK_EX)
            return handler(message, descriptors)

    return answer


@dataclass(frozen=True, kw_only=True)
class TrustedRankSetup(Membership):
    """What a trusted rank is started with, beside that: the page on which ends of calls are posted."""

    ends: int


class TrustedRank:
    """One rank; subclasses add commands."""

    def __init__(self, setup: TrustedRankSetup) -> None:
        self._setup = setup
        self._device = setup.own_device
        self._worked_at = -float("inf")
        self._is_in_use = False

    def commands(self) -> Mapping[str, Handler]:
        """The commands of the host by name; the first one is always `open`."""
        raise NotImplementedError

    def get_ready(self) -> None:
        """Called once the process group exists."""

    def own_bytes(self) -> int:
        """Bytes of device memory outside torch's allocator."""
        return 0

    def memory(self, _message: messages.Body, _descriptors: list[int]) -> Reply:
        """Bytes of device memory that this rank holds: now, and the maximum since a size was opened; 0 on CPU ranks."""
        if self._device.type != "cuda":
            return {"bytes": 0, "peak_bytes": 0}, []
        own = self.own_bytes()
        now, peak = torch.cuda.memory_reserved(self._device), torch.cuda.max_memory_reserved(self._device)
        return {"bytes": own + now, "peak_bytes": own + peak}, []

    def free_memory(self) -> None:
        """Release the cache of torch's allocator, and restart the maximum."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self._device)

    def free_idle_memory(self) -> None:
        """Release what torch's allocator keeps unused, where it is much of the GPU: submissions need it meanwhile."""
        if self._device.type == "cuda":
            idle = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
            ranks = self._setup.world_size / self._setup.gpus
            if idle > _IDLE_SHARE / ranks * torch.cuda.get_device_properties(self._device).total_memory:
                torch.cuda.empty_cache()

    def serve(self) -> None:
        """Join the process group, then answer until the host closes its end."""
        setup = self._setup
        channel = socket.socket(fileno=setup.channel)
        join(setup)
        self.get_ready()
        handlers = {**self.commands(), "memory": self.memory}
        messages.send(channel, {"ready": True})
        # Before the first evaluation it may sleep.
        while (message := messages.receive(channel, busy_poll_s=self._is_in_use * setup.busy_poll_s)) is not None:
            body, descriptors = self._answer(handlers, *message)
            messages.send(channel, body, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def _answer(self, handlers: Mapping[str, Handler], message: messages.Body, descriptors: list[int]) -> Reply:
        self._is_in_use = self._is_in_use or message["command"] == "open"
        try:
            return handlers[message["command"]](message, descriptors)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here must reach the host
            return {"error": traceback.format_exc(), "is_memory": _is_lack_of_memory(error)}, []
        finally:
            self._worked_at = time.monotonic()
            for descriptor in descriptors:
                os.close(descriptor)


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether torch, Python or the driver reports that the device, or the host, has no memory left."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        words in str(error) for words in _WITHOUT_MEMORY
    )


_IDLE_SHARE = 0.1
"""Allocating takes milliseconds, so all ranks of a GPU keep less than this share of it for the next call."""

_WITHOUT_MEMORY = ("CUDA_ERROR_OUT_OF_MEMORY", "DefaultCPUAllocator: can't allocate memory")
