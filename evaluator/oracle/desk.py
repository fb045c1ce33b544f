"""Calls of the reference made the way a sandbox rank makes them, to know how long everything around a call takes."""

import mmap
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from evaluator.arena.device_memory import is_available as has_shared_memory
from evaluator.arena.loaded_call import LoadedCall, read_call, store_outputs
from evaluator.arena.protocol import OUTPUT_HEADER_BYTES
from evaluator.arena.structure import Area, Unpacker, read_head
from evaluator.oracle import call_memory
from problems.schema import Problem
from problems.values import Arguments


class Desk:
    """What a sandbox rank does around a call, done by an oracle rank in memory that no sandbox sees.

    How long that takes is what the answer of a submission may take beyond its claim.
    """

    def __init__(self, problem: Problem, *, output_bytes: int, device: torch.device) -> None:
        self._problem = problem
        self._device = device
        self._memory: call_memory.DeviceSlot | None = None
        if has_shared_memory(device):
            self._memory = call_memory.DeviceSlot(output_bytes=output_bytes, device=device)
        self._output = mmap.mmap(-1, OUTPUT_HEADER_BYTES if self._memory is not None else output_bytes)
        self._prepared: call_memory.Prepared | None = None
        self._slot: LoadedCall | None = None

    @property
    def slot(self) -> LoadedCall:
        """The call that was read last."""
        assert self._slot is not None
        return self._slot

    def lay_out(self, values: Arguments, *, groups: Sequence[Sequence[int]]) -> None:
        """Have a call's arguments ready to be published."""
        self._slot = None
        self._drop()
        self._prepared = call_memory.prepare_inputs(self._problem, values, groups=groups, slot=self._memory)

    def publish(self) -> None:
        """Put their tensors where they are read, as an oracle rank does for its sandbox rank."""
        if self._memory is not None:
            self._memory.publish()

    def read(self, *, group_of: Callable[[tuple[int, ...]], Any]) -> None:
        """Read them as a sandbox rank reads its call."""
        assert self._prepared is not None
        prepared, self._prepared = self._prepared, None
        try:
            with mmap.mmap(prepared.file, 0, flags=mmap.MAP_PRIVATE) as buffer:
                tree, data = read_head(buffer)
                source: Area = buffer
                area: Area = self._output
                if self._memory is not None:
                    source, data, area = self._memory.inputs.bytes, 0, self._memory.outputs.bytes
                unpacker = Unpacker(source, data=data, device=self._device, group_of=group_of)
                self._slot = read_call(tree, unpacker, output=self._output, area=area)
        finally:
            os.close(prepared.file)

    def keep_books(self, tensors: Sequence[Any]) -> None:
        """Store the outputs and look for changed inputs."""
        store_outputs(self.slot.output, self.slot.area, tensors)
        self.slot.first_change()
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def close(self) -> None:
        """Give the memory back."""
        self._slot = None
        self._drop()
        self._output.close()
        if self._memory is not None:
            self._memory.close()

    def _drop(self) -> None:
        """Forget a call that was never read."""
        if self._prepared is not None:
            os.close(self._prepared.file)
            self._prepared = None
