"""Timing one call, the same code for a submission and for the reference."""

import mmap
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from evaluator.arena import device_memory, fingerprint
from evaluator.arena.fingerprint import is_plain_tensor
from evaluator.arena.protocol import BARRIER_STRIDE

# Held from before a submission is imported: a returned tensor may have a `detach` of its own.
_clone, _detach = torch.clone, torch.Tensor.detach

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

    `returned` are the tensors themselves, `tensors` the copies, and the fingerprint was taken of the former before
    anything was waited for. `claimed_ns` ends when the work queued on the current stream is done; `settled_ns` adds
    what the device then still had to do.
    """

    returned: list[Any]
    tensors: list[Any]
    fingerprint: int
    claimed_ns: int
    settled_ns: int


class Stopwatch:
    """Calls a function between a barrier and a copy of what it returned; holds its clocks from the start."""

    def __init__(self, device: torch.device, barrier: Barrier) -> None:
        self._device = device
        self._barrier = barrier
        self._now = time.perf_counter_ns
        self._sleep = time.sleep
        self._forget = device_memory.forget_persisting_lines
        self._scratch: torch.Tensor | None = None
        if device.type == "cuda":
            self._scratch = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device=device)
        self._share = device_memory.L2Share.of(device)

    def run(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        *,
        collect: Callable[[Any], list[Any]],
        delay_us: int = 0,
    ) -> Timed:
        """Time `function(*arguments)`; `collect` lists the tensors to copy out of what it returned.

        With a delay this rank starts so much later than it has lined up.
        """
        run = self._run_cpu if self._scratch is None else self._run_cuda
        return run(function, arguments, collect, delay_us)

    def _line_up(self, delay_us: int) -> None:
        self._barrier.wait()
        if delay_us:
            self._sleep(delay_us * 1e-6)

    def _run_cpu(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        collect: Callable[[Any], list[Any]],
        delay_us: int,
    ) -> Timed:
        now = self._now
        self._line_up(delay_us)
        start = now()
        value = function(*arguments)
        claimed = now() - start
        returned = collect(value)
        mark = fingerprint.fingerprint(returned)
        tensors = [copied(tensor) for tensor in returned]
        return Timed(returned=returned, tensors=tensors, fingerprint=mark, claimed_ns=claimed, settled_ns=claimed)

    def _run_cuda(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        collect: Callable[[Any], list[Any]],
        delay_us: int,
    ) -> Timed:
        now, synchronize = self._now, torch.cuda.synchronize
        begin, finish, taken = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        assert self._scratch is not None
        self._share.give()
        self._forget(self._device)
        self._scratch.zero_()  # a warm L2 would time the contents of the call before
        synchronize()
        self._line_up(delay_us)
        begin.record()
        value = function(*arguments)
        finish.record()
        returned = collect(value)
        sums = fingerprint.begin(returned)
        tensors = [copied(tensor) for tensor in returned]
        taken.record()
        taken.synchronize()
        reached = now()
        synchronize()  # work on streams that the current one does not wait for shows as a second, later end
        late = now() - reached
        self._share.take_back()
        claimed = int(begin.elapsed_time(finish) * 1e6)
        return Timed(
            returned=returned,
            tensors=tensors,
            fingerprint=fingerprint.finish(sums),
            claimed_ns=claimed,
            settled_ns=claimed + late,
        )


def copied(value: Any) -> Any:
    """A dense copy made on the current stream; what is no plain tensor is passed on to be described."""
    return _clone(_detach(value), memory_format=torch.contiguous_format) if is_plain_tensor(value) else value
