"""A call of the reference as an oracle rank makes it, in memory like a sandbox rank's that no sandbox sees."""

import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from evaluator.arena.gate import Sealer
from evaluator.arena.loaded_call import LoadedCall, read_call
from evaluator.arena.protocol import OUTPUT_HEADER_BYTES
from evaluator.arena.structure import Area, Unpacker, read_head
from evaluator.oracle import call_memory
from problems.schema import Problem
from problems.values import Arguments

GroupOf = Callable[[tuple[int, ...]], Any]


@dataclass
class StandInCall(LoadedCall):
    """A call whose outputs are `outputs`, whatever was returned."""

    outputs: Sequence[torch.Tensor] = ()

    def collect(self, value: Any) -> list[Any]:  # noqa: ARG002
        """The outputs that stand in."""
        return list(self.outputs)


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """What an output of the reference was like, so that an empty call can return as much."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def stand_in(self) -> torch.Tensor:
        """A tensor of this kind with any contents."""
        return torch.empty(self.shape, dtype=self.dtype, device=self.device)


class ReferenceMemory:
    """The memory of the reference's calls at one size, and the call that lies in it."""

    def __init__(self, problem: Problem, *, output_bytes: int, device: torch.device, sealer: Sealer | None) -> None:
        self._problem = problem
        self._device = device
        self._sealer = sealer
        self._memory: call_memory.DeviceSlot | None = None
        if sealer is not None:
            self._memory = call_memory.DeviceSlot(output_bytes=output_bytes, device=device)
        self._output = mmap.mmap(-1, OUTPUT_HEADER_BYTES if self._memory is not None else output_bytes)
        self._prepared: call_memory.Prepared | None = None
        self._call: LoadedCall | None = None
        self._likenesses: tuple[Likeness, ...] = ()

    @property
    def last(self) -> LoadedCall:
        """The call that was run last."""
        assert self._call is not None
        return self._call

    def lay_out(self, values: Arguments, *, groups: Sequence[Sequence[int]], group_of: GroupOf) -> int:
        """Have a call's arguments lie ready, and on a GPU make them; how many bytes they have."""
        self._call = None
        self._drop()
        self._prepared = call_memory.prepare_inputs(
            self._problem, values, groups=groups, slot=self._memory, sealer=self._sealer
        )
        size = self._prepared.size
        if self._memory is not None:
            self._call = self._read(group_of)
        return size

    def call(self, *, group_of: GroupOf) -> LoadedCall:
        """The call that was laid out; a CPU rank reads its inputs now, while the clock runs."""
        if self._prepared is not None:
            self._call = self._read(group_of)
        return self.last

    def empty_call(self, *, group_of: GroupOf) -> LoadedCall:
        """The same call with outputs that nobody computes."""
        slot = self.call(group_of=group_of)
        known = {field.name: getattr(slot, field.name) for field in fields(LoadedCall)}
        return StandInCall(**known, outputs=[like.stand_in() for like in self._likenesses])

    def note(self, returned: Sequence[Any]) -> None:
        """Remember what the reference's outputs are like."""
        self._likenesses = tuple(
            Likeness(shape=tuple(tensor.shape), dtype=tensor.dtype, device=tensor.device)
            for tensor in returned
            if isinstance(tensor, torch.Tensor)
        )

    def close(self) -> None:
        """Give the memory back."""
        self._call = None
        self._drop()
        self._output.close()
        if self._memory is not None:
            self._memory.close()

    def _read(self, group_of: GroupOf) -> LoadedCall:
        assert self._prepared is not None
        prepared, self._prepared = self._prepared, None
        try:
            with mmap.mmap(prepared.file, 0, flags=mmap.MAP_PRIVATE) as buffer:
                tree, data = read_head(buffer)
                source: Area = buffer
                area: Area = self._output
                sealed = None
                if self._memory is not None:
                    source, data, area = self._memory.inputs.bytes, prepared.data, self._memory.outputs.bytes
                    sealed = source[data : data + prepared.size]
                unpacker = Unpacker(
                    source, data=data, device=self._device, group_of=group_of, in_place=sealed is not None
                )
                return read_call(tree, unpacker, output=self._output, area=area, sealed=sealed)
        finally:
            os.close(prepared.file)

    def _drop(self) -> None:
        """Forget a call that was never read."""
        if self._prepared is not None:
            os.close(self._prepared.file)
            self._prepared = None
