"""One rank that runs the reference as a sandbox rank runs a submission: it draws and compares nothing.

A rank that also drew the inputs would run the reference with warm caches and page tables. A submission never has them:
the device switches from the oracle's process to a sandbox rank's before every call.
"""

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from evaluator.arena.call_buffer import CallBuffer
from evaluator.arena.clock import Barrier, new_runner
from evaluator.arena.loaded_call import LoadedCall
from evaluator.arena.process_group import group_maker
from evaluator.arena.profiler import Recorder
from evaluator.oracle import messages
from evaluator.oracle.trusted_rank import Handler, Reply, TrustedRank, TrustedRankSetup
from problems import registry


@dataclass
class EmptyCall(LoadedCall):
    """A call whose outputs are `outputs`, whatever was returned."""

    outputs: Sequence[torch.Tensor] = ()

    def collect(self, value: Any) -> list[Any]:  # noqa: ARG002
        """The given outputs."""
        return list(self.outputs)


Spec = tuple[torch.Size, torch.dtype, torch.device]
"""Shape, dtype and device of an output of the reference, so that an empty call can return as much."""


def spec_of(tensor: torch.Tensor) -> Spec:
    """What `empty_call` has to know of an output."""
    return tensor.shape, tensor.dtype, tensor.device


def empty_call(call: LoadedCall, specs: Sequence[Spec]) -> EmptyCall:
    """A call on the same inputs, with outputs that are not computed."""
    known = {field.name: getattr(call, field.name) for field in fields(LoadedCall)}
    return EmptyCall(**known, outputs=[torch.empty(shape, dtype=dtype, device=on) for shape, dtype, on in specs])


class ReferenceRank(TrustedRank):
    """The state of one rank that runs the reference."""

    def __init__(self, setup: TrustedRankSetup) -> None:
        super().__init__(setup)
        self._buffer = CallBuffer(self._device, group_of=group_maker(setup.world_size))
        self._reference: Callable[..., Any] | None = None
        self._specs: tuple[Spec, ...] = ()
        self._recorder: Recorder | None = None

    def commands(self) -> Mapping[str, Handler]:
        """The commands for calls."""
        return {
            "open": self._open,
            "load": self._load,
            "go": self._go,
            "record": self._record,
            "empty": self._empty,
            "bare": self._bare,
            "loop": self._loop,
            "close": self._close,
        }

    def get_ready(self) -> None:
        """Prepare the runner of calls."""
        setup = self._setup
        self._barrier = Barrier(setup.barrier, rank=setup.rank, world_size=setup.world_size)
        self._runner = new_runner(self._device, self._barrier, clock=setup.clock, rank=setup.rank)

    def _open(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """Open the reference of a problem, and free the memory of the one before."""
        self._close({}, [])
        package = registry.package(registry.get(message["problem"]).slug)
        self._reference = importlib.import_module(f"{package}.reference").solution
        return {}, []

    def _close(self, _message: messages.Body, _descriptors: list[int]) -> Reply:
        """Free the memory of the problem."""
        self._buffer.close()
        self._reference, self._specs = None, ()
        self.free_memory()
        return {}, []

    def _load(self, _message: messages.Body, descriptors: list[int]) -> Reply:
        """Load a call; a CPU rank gets its inputs when the call begins."""
        self._buffer.load([os.dup(descriptor) for descriptor in descriptors])
        return {}, []

    def _go(self, message: messages.Body, descriptors: list[int]) -> Reply:
        """One call of the reference on what was loaded."""
        recorder, self._recorder = self._recorder, None
        function = self._current() if recorder is None else recorder.around(self._current())
        timed = self._runner.run(function, self._call(descriptors), number=message["number"])
        if recorder is not None:
            recorder.finish()
        tensors = [tensor for tensor in timed.returned if isinstance(tensor, torch.Tensor)]
        self._specs = tuple(map(spec_of, tensors))
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return {"claimed_ns": timed.claimed_ns, "bytes": size}, []

    def _record(self, _message: messages.Body, descriptors: list[int]) -> Reply:
        """Start to record what runs until the end of the next call."""
        self._recorder = Recorder(os.dup(descriptors[0]), device=self._device)
        return {}, []

    def _empty(self, message: messages.Body, descriptors: list[int]) -> Reply:
        """An empty call: the bytes of the reference's call, without computing."""
        call = empty_call(self._call(descriptors), self._specs)
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        self._runner.run(lambda *_: None, call, number=message["number"])
        return {}, []

    def _bare(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """A bare call: no bytes, no work."""
        self._runner.run_nothing(number=message["number"])
        return {}, []

    def _loop(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """The reference back to back on the inputs of its last call; the host's clock runs."""
        reference, groups = self._current(), self._buffer.call.groups(message["groups"])
        self._barrier.wait()
        for number in range(message["times"]):
            reference(*groups[number % len(groups)])
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return {}, []

    def _call(self, descriptors: Sequence[int]) -> LoadedCall:
        """The call that was loaded; a CPU rank reads its inputs now, while the clock runs."""
        if descriptors:
            self._buffer.take_inputs(os.dup(descriptors[0]))
        return self._buffer.call

    def _current(self) -> Callable[..., Any]:
        if self._reference is None:
            raise RuntimeError("the host asked for a call before it opened a problem")
        return self._reference
