"""Runs one call from its beginning to its end. The same code for a submission and for the reference.

Only the host's clock counts. The times taken here are self-reported by the rank, as a cross-check.
"""

import contextlib
import ctypes
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from evaluator.arena import device_memory, fingerprint
from evaluator.arena.gate import Gate, Sealer
from evaluator.arena.loaded_call import LoadedCall, describe_outputs, planned_outputs, store_host_outputs, store_outputs
from evaluator.arena.protocol import BARRIER_BYTES, BARRIER_STRIDE, CLOCK_PAGE_BYTES

_NUMBER = struct.Struct("<Q")
_HELD, _GPU_HELD_US, _FREE_S, _SLOW_S = 0.25, 1000, 1e-4, 0.1
"""At a step of Python a slowed CPU rank waits for so much of its delay, a GPU rank for so long; then, how long it goes
on, and how long it is slow."""


class Barrier:
    """Ranks line up through a shared page, given by its descriptor; no process group of the submission takes part."""

    def __init__(self, page: int, *, rank: int, world_size: int) -> None:
        self._page = mmap.mmap(page, BARRIER_BYTES)
        self._own = rank * BARRIER_STRIDE
        self._all = [peer * BARRIER_STRIDE for peer in range(world_size)]
        self._passed = 0

    def wait(self) -> None:
        """Return once every rank has called this as often as this one."""
        self._passed += 1
        _NUMBER.pack_into(self._page, self._own, self._passed)
        yield_core = os.sched_yield
        while any(_NUMBER.unpack_from(self._page, offset)[0] < self._passed for offset in self._all):
            yield_core()


@dataclass(frozen=True, kw_only=True)
class CallTiming:
    """What a call returned, and its time in nanoseconds by this rank's own clock.

    `fingerprint` is 0 on a GPU, where the host gets it with the end of the call.
    """

    returned: list[Any]
    fingerprint: int
    claimed_ns: int


class CpuRunner:
    """Runs calls on a CPU rank; the host's clock begins with the message that brings the inputs."""

    def __init__(self, barrier: Barrier) -> None:
        self._barrier = barrier
        self._now = time.perf_counter_ns
        self._sleep = time.sleep

    def run(
        self,
        function: Callable[..., Any],
        loaded: LoadedCall,
        *,
        number: int,  # noqa: ARG002
        delay_us: int = 0,
        is_open: bool = False,  # noqa: ARG002
        goes_on: bool = False,
    ) -> CallTiming:
        """Line up, call `function`, and store its outputs; with a delay this rank starts later and is slow.

        With `goes_on` another call follows at once: what peers still read of this one must stay.
        """
        now, others = self._now, loaded.others() if goes_on else None
        self._barrier.wait()
        if delay_us:
            self._sleep(delay_us * 1e-6)
        with _slowed(int(_HELD * delay_us)) if delay_us else contextlib.nullcontext():
            start = now()
            value = function(*loaded.arguments)
            claimed_ns = now() - start
        returned = loaded.collect(value)
        mark = fingerprint.fingerprint(returned)
        store_outputs(loaded.output, loaded.area, returned)
        if others is not None:
            function(*others)
        return CallTiming(returned=returned, fingerprint=mark, claimed_ns=claimed_ns)

    def run_nothing(self, *, number: int) -> None:  # noqa: ARG002
        """A bare call: ranks only line up."""
        self._barrier.wait()


@contextlib.contextmanager
def _slowed(held_us: int) -> Iterator[None]:
    """Another thread holds Python's lock most of the time, so that peers are ahead of this rank at every step."""
    ended, last = threading.Event(), time.monotonic() + _SLOW_S
    hold = ctypes.PyDLL(None).usleep  # PyDLL keeps the lock during the call

    def hold_often() -> None:
        while not ended.is_set() and time.monotonic() < last:
            hold(held_us)
            time.sleep(_FREE_S)

    other = threading.Thread(target=hold_often)
    other.start()
    try:
        yield
    finally:
        ended.set()
        other.join()


class GpuRunner:
    """Runs calls on a GPU behind a gate that the host opens."""

    def __init__(self, device: torch.device, gate: Gate) -> None:
        self._device = device
        self._gate = gate
        self._forget = device_memory.forget_persisting_lines
        self._share = device_memory.L2Share.of(device)

    def run(
        self,
        function: Callable[..., Any],
        loaded: LoadedCall,
        *,
        number: int,
        delay_us: int = 0,
        is_open: bool = False,
        goes_on: bool = False,
    ) -> CallTiming:
        """Queue gate, unsealing, `function` and the copy of its outputs; return when the device is idle.

        With `is_open`, `function` is called once the gate is open: what it makes for later calls is then made at once,
        as where no gate is, and a late rank is slow. With `goes_on` another call follows behind the copy.
        """
        gate, synchronize = self._gate, torch.cuda.synchronize
        begin, finish = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        assert loaded.sealed is not None
        assert isinstance(loaded.area, torch.Tensor)
        self._share.give()
        self._forget(self._device)
        synchronize()
        gate.touch(loaded.sealed, loaded.area)
        gate.close_behind(number)
        gate.unseal(loaded.sealed)
        if is_open:
            synchronize()
        others = loaded.others() if goes_on else None
        begin.record()
        with _slowed(_GPU_HELD_US) if is_open and delay_us else contextlib.nullcontext():
            value = function(*loaded.arguments)
        finish.record()
        returned = loaded.collect(value)
        described, targets = planned_outputs(loaded.area, returned)
        gate.finish(returned, targets=targets, number=number)
        gate.say_queued(number)
        is_on_host = any(each.get("device") == "cpu" for each in described)
        if others is not None and not is_on_host:
            function(*others)
        synchronize()
        self._share.take_back()
        store_host_outputs(loaded.area, described, returned)
        if others is not None and is_on_host:
            function(*others)
            synchronize()
        describe_outputs(loaded.output, described)
        return CallTiming(returned=returned, fingerprint=0, claimed_ns=int(begin.elapsed_time(finish) * 1e6))

    def run_nothing(self, *, number: int) -> None:
        """A bare call: no bytes, no work; only opening and end."""
        torch.cuda.synchronize()
        self._gate.close_behind(number)
        self._gate.finish([], targets=[], number=number)
        self._gate.say_queued(number)
        torch.cuda.synchronize()


def new_runner(device: torch.device, barrier: Barrier, *, clock: int, rank: int) -> CpuRunner | GpuRunner:
    """What runs calls on `device`; on a GPU by the page of the host's clock, which is given by its descriptor."""
    if device.type != "cuda":
        return CpuRunner(barrier)
    page = mmap.mmap(clock, CLOCK_PAGE_BYTES)
    return GpuRunner(device, Gate(page, sealer=Sealer(device, rank=rank), rank=rank))
