"""The call buffer: memory through which a rank gets inputs and gives outputs, for submission and reference."""

import mmap
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from evaluator.arena.device_memory import DeviceMemory
from evaluator.arena.loaded_call import LoadedCall, read_call, store_outputs
from evaluator.arena.structure import Area, Unpacker, read_head


class CallBuffer:
    """Holds one call after the other; every method closes the descriptors that it gets.

    On a GPU inputs and outputs lie in device memory that is shared with the judge, and inputs are sealed until the call
    begins. On a CPU rank they lie in files, and the inputs come when the call begins.

    Args:
        device: the device of the call's tensors.
        group_of: the process group of some ranks; asked for every group of a call, in the order of the call's list.
    """

    def __init__(self, device: torch.device, *, group_of: Callable[[tuple[int, ...]], Any]) -> None:
        self._device = device
        self._group_of = group_of
        self._call: LoadedCall | None = None
        self._output: mmap.mmap | None = None
        self._inputs: DeviceMemory | None = None
        self._outputs: DeviceMemory | None = None

    @property
    def call(self) -> LoadedCall:
        """The last call; raises RuntimeError before there is one."""
        if self._call is None:
            raise RuntimeError("the host asked for a call before it was loaded")
        return self._call

    def load(self, descriptors: Sequence[int]) -> None:
        """Take a call's files: on a GPU those of inputs, outputs and new device memory, else that of the outputs."""
        if self._call is not None:
            self._call.returned.clear()
        if self._device.type == "cuda":
            inputs, output, *areas = descriptors
            self._call = self._read(inputs, mmap.mmap(output, 0), areas=areas)
        else:
            self._output = mmap.mmap(descriptors[0], 0)
        for descriptor in descriptors:
            os.close(descriptor)

    def take_inputs(self, file: int, *, reuse: bool = False) -> None:
        """Take a CPU rank's inputs; with `reuse` into the tensors of the call before, where shapes agree."""
        assert self._output is not None
        previous = self._call.tensors if self._call is not None and reuse else ()
        self._call = self._read(file, self._output, previous=previous)
        os.close(file)

    def store_again(self, file: int) -> None:
        """Store what the last call returned as it is now."""
        output = mmap.mmap(file, 0)
        os.close(file)
        store_outputs(output, self._area_of(output), self.call.returned)
        output.close()

    def close(self) -> None:
        """Forget the call, and release device memory."""
        self._call = None
        for area in (self._inputs, self._outputs):
            if area is not None:
                area.close()
        self._inputs = self._outputs = None

    def _read(
        self, inputs: int, output: mmap.mmap, *, areas: Sequence[int] = (), previous: Sequence[torch.Tensor] = ()
    ) -> LoadedCall:
        with mmap.mmap(inputs, 0, flags=mmap.MAP_PRIVATE) as buffer:
            tree, data = read_head(buffer)
            for ranks in tree["groups"]:
                self._group_of(tuple(ranks))
            self._map(areas, tree["areas"])
            source: Area = buffer
            sealed = None
            if self._inputs is not None and self._outputs is not None:
                source, data = self._inputs.bytes, tree["data"]
                sealed = source[data : data + tree["bytes"]]
            unpacker = Unpacker(
                source,
                data=data,
                device=self._device,
                group_of=self._group_of,
                previous=previous,
                in_place=sealed is not None,
            )
            return read_call(tree, unpacker, output=output, area=self._area_of(output), sealed=sealed)

    def _area_of(self, output: mmap.mmap) -> Area:
        """What takes the elements: of device memory, which comes in steps of 2 MiB, only the declared bytes."""
        return output if self._outputs is None else self._outputs.bytes[: len(output)]

    def _map(self, descriptors: Sequence[int], sizes: Sequence[int]) -> None:
        """Map the shared device memory that comes with the first call of a size; later calls find it mapped."""
        if descriptors:
            inputs, outputs = (
                DeviceMemory.received(descriptor, size=size, device=self._device)
                for descriptor, size in zip(descriptors, sizes, strict=True)
            )
            self.close()
            self._inputs, self._outputs = inputs, outputs
