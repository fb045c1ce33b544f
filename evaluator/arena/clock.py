"""Timing one call, the same code for a submission and for the reference."""

import mmap
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from evaluator.arena.records import BARRIER_STRIDE

_NUMBER = struct.Struct("<Q")
_FLUSH_BYTES = 256 * 1024 * 1024
"""More than twice the 50 MB L2 of an H100 or H200 and the 126 MB of a B200."""


class Barrier:
    """Ranks line up through a shared page; no process group of the submission takes part."""

    def __init__(self, page: mmap.mmap, *, rank: int, world_size: int) -> None:
        self._page = page
        self._own = rank * BARRIER_STRIDE
        self._all = [peer * BARRIER_STRIDE for peer in range(world_size)]
        self._passed = 0

    def wait(self) -> None:
        """Return once every rank has come here as often as this one."""
        self._passed += 1
        _NUMBER.pack_into(self._page, self._own, self._passed)
        yield_core = os.sched_yield
        while any(_NUMBER.unpack_from(self._page, place)[0] < self._passed for place in self._all):
            yield_core()


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What a call returned, a copy of its tensors taken in stream order, and its time in nanoseconds.

    `claimed_ns` ends when the work queued on the current stream is done, `settled_ns` when the device is idle.
    """

    value: Any
    tensors: list[Any]
    claimed_ns: int
    settled_ns: int


class Stopwatch:
    """Calls a function between a barrier and a copy of what it returned; holds its clocks from the start."""

    def __init__(self, device: torch.device, barrier: Barrier) -> None:
        self._device = device
        self._barrier = barrier
        self._now = time.perf_counter_ns
        self._scratch: torch.Tensor | None = None
        if device.type == "cuda":
            self._scratch = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device=device)

    def run(self, function: Callable[..., Any], arguments: list[Any], *, collect: Callable[[Any], list[Any]]) -> Timed:
        """Time `function(*arguments)`; `collect` lists the tensors to copy out of what it returned."""
        return (
            self._run_cuda(function, arguments, collect)
            if self._scratch is not None
            else self._run_cpu(function, arguments, collect)
        )

    def _run_cpu(
        self, function: Callable[..., Any], arguments: list[Any], collect: Callable[[Any], list[Any]]
    ) -> Timed:
        now = self._now
        self._barrier.wait()
        start = now()
        value = function(*arguments)
        end = now()
        tensors = [_copied(tensor) for tensor in collect(value)]
        return Timed(value=value, tensors=tensors, claimed_ns=end - start, settled_ns=now() - start)

    def _run_cuda(
        self, function: Callable[..., Any], arguments: list[Any], collect: Callable[[Any], list[Any]]
    ) -> Timed:
        now, synchronize = self._now, torch.cuda.synchronize
        begin, finish = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        assert self._scratch is not None
        self._scratch.zero_()  # a warm L2 would time the contents of the call before
        synchronize()
        self._barrier.wait()
        start = now()
        begin.record()
        value = function(*arguments)
        finish.record()
        tensors = [_copied(tensor) for tensor in collect(value)]
        finish.synchronize()
        synchronize()
        settled = now() - start
        claimed = int(begin.elapsed_time(finish) * 1e6)
        return Timed(value=value, tensors=tensors, claimed_ns=claimed, settled_ns=max(settled, claimed))


def is_plain_tensor(value: Any) -> bool:
    """Whether `value` is a tensor with storage of its own; a lazy subclass is not."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided


def _copied(value: Any) -> Any:
    """A dense copy made on the current stream; what is no plain tensor is passed on to be described."""
    return torch.clone(value.detach(), memory_format=torch.contiguous_format) if is_plain_tensor(value) else value
