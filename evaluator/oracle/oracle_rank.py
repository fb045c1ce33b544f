"""One oracle rank: draws inputs, computes expected outputs, and compares."""

import importlib
import itertools
import math
import mmap
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch

from evaluator.arena.gate import Sealer
from evaluator.arena.protocol import OUTPUT_HEADER_BYTES
from evaluator.arena.structure import Area, align
from evaluator.contract import BufferKind
from evaluator.oracle import call_memory, canary, messages, published_rule, traces
from evaluator.oracle import ends as ends_page
from evaluator.oracle.end_check import EndCheck, SamplePattern
from evaluator.oracle.ends import Ends
from evaluator.oracle.messages import CheckedOutput, Reader
from evaluator.oracle.near_call import NearCall
from evaluator.oracle.trusted_rank import Handler, Reply, TrustedRank, TrustedRankSetup, in_turns
from evaluator.oracle.verify import Examiner
from problems import registry
from problems.inputs.values import Arguments, Call
from problems.outputs.checking import dtype_of
from problems.spec.schema import Problem, Regime

_WARM_UP_S, _WARM_S = 0.3, 0.03
"""Seconds of matrix products before a size is measured, which bring a GPU to its clocks: after idling, and after recent
work."""

_STAYS_WARM_S = 2.0

_CPU_CACHE_BYTES = 1 << 20

_MOST_PARTS, _SPARE = 4, 1.125
"""The most bytes of a rank's outputs, as a multiple of the mean over ranks, and a constant."""

_OUTPUTS = 1
"""The index of the outputs among the sampled areas; inputs come first."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The problem, size and dtype that calls are made for.

    Where input values decide the length of outputs, `usual_bytes` are enough for those of any call in no regime.
    """

    problem: Problem
    examiner: Examiner
    template: Call
    make_inputs: Callable[[Call], Arguments]
    usual_bytes: int = 0

    def call(self, draw: messages.Body) -> Call:
        """The call of a draw: `call` is its number, `near` another number or None, `regime` a name or ""."""
        call = replace(self.template, index=draw["call"])
        if draw["regime"]:
            call = in_regime(call, self.problem.regime(draw["regime"]))
        if draw["near"] is None:
            return call
        known = {field.name: getattr(call, field.name) for field in fields(Call)}
        return NearCall(**known, base=draw["near"])

    def room(self, call: Call) -> int:
        """Bytes of room for the outputs of `call`: no more than that, as every byte is poisoned, copied and sampled.

        Outputs of another shape or dtype may not fit; their description refuses them.
        """
        if not self.problem.lengths_vary:
            elements = [math.prod(call.shape(output.shape)) for output in self.problem.outputs]
            return 2 * OUTPUT_HEADER_BYTES + _bytes_of(self.problem, call, elements)
        if call.regime is None:
            return self.usual_bytes
        return 2 * OUTPUT_HEADER_BYTES + 2 * expected_bytes(self.problem, self.examiner, call)


def cache_bytes(device: torch.device) -> int:
    """Bytes of a GPU's L2 cache; of a CPU rank's, what is taken for it."""
    return int(torch.cuda.get_device_properties(device).L2_cache_size) if device.type == "cuda" else _CPU_CACHE_BYTES


def in_regime(call: Call, regime: Regime) -> Call:
    """The same call in `regime`."""
    return replace(call, regime=regime, dims=regime.dims_in(call.dims, call.world_size))


class OracleRank(TrustedRank):
    """The state of one oracle rank."""

    def __init__(self, setup: TrustedRankSetup) -> None:
        super().__init__(setup)
        self._opened: Opened | None = None
        self._sealer: Sealer | None = None
        self._buffers: dict[Reader, call_memory.DeviceBuffer] = {}
        self._prepared: call_memory.Prepared | None = None
        self._room = 0  # bytes for the outputs of the call whose inputs are prepared
        self._end_check: EndCheck | None = None
        self._area_numbers = itertools.count()
        # What all draws of a size have in common: the process groups of a rank, and room for usual outputs.
        self._known: dict[tuple[str, str, str], tuple[list[list[int]], int]] = {}

    def commands(self) -> Mapping[str, Handler]:
        """The commands for inputs and outputs."""
        handlers: dict[str, Handler] = {
            "open": self._open,
            "prepare": self._prepare,
            "compare": self._compare,
            "differ": self._differ,
            "mark": self._mark,
            "watch": self._watch,
            "warm": self._warm,
            "canary": self._canary,
        }
        if 0 < self._setup.gpus < self._setup.world_size:
            turns = partial(in_turns, file=Path(f"{self._setup.store}.turns"), free=self.free_memory)
            handlers |= {name: turns(handlers[name]) for name in ("open", "compare")}
        return {name: torch.no_grad()(handler) for name, handler in handlers.items()}

    def own_bytes(self) -> int:
        """Bytes of shared device memory, which torch does not count."""
        return sum(buffer.inputs.size + buffer.outputs.size for buffer in self._buffers.values())

    def get_ready(self) -> None:
        """Compile the kernels that seal inputs."""
        if self._device.type == "cuda":
            self._sealer = Sealer(self._device, rank=self._setup.rank)

    def _canary(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """Run the canary: whether this rank's device computes and communicates exactly."""
        setup = self._setup
        found = canary.failures(
            device=self._device, rank=setup.rank, world_size=setup.world_size, is_full=message["is_full"]
        )
        return {"failures": found}, []

    def _open(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        problem = registry.get(message["problem"])
        package = registry.package(problem.slug)
        setup = self._setup
        # Free what the last size left: this one may need the memory.
        self._prepared = None
        if self._end_check is not None:
            self._end_check.forget()
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()
        self.free_memory()
        size = message["size"]
        template = Call(
            key=bytes.fromhex(message["key"]),
            index=0,
            rank=setup.rank,
            world_size=setup.world_size,
            dims=problem.dims(size, setup.world_size),
            dtype=getattr(torch, message["dtype"]),
            device=self._device,
        )
        examiner = Examiner(problem)
        make_inputs = importlib.import_module(f"{package}.inputs").make_inputs
        known = (message["problem"], message["size"], message["dtype"])
        if known not in self._known:
            self._known[known] = (
                call_memory.groups_of(make_inputs(template)),
                usual_room(problem, examiner, template) if problem.lengths_vary else 0,
            )
            self.free_idle_memory()
        groups, usual_bytes = self._known[known]
        self._opened = Opened(
            problem=problem,
            examiner=examiner,
            template=template,
            make_inputs=make_inputs,
            usual_bytes=usual_bytes,
        )
        self._renew_buffers()
        self._warm_up()
        return {
            "groups": groups,
            "dims": dict(template.dims),
            "buffers": BufferKind.DEVICE_MEMORY if self._buffers else BufferKind.HOST_MEMORY,
            "cache_bytes": cache_bytes(self._device),
        }, []

    def _renew_buffers(self) -> None:
        """New device memory for every size of every evaluation, so that nothing of an earlier one is left in it.

        The reference has its own: a submission keeps its mapping, and could change the reference's data.
        """
        if self._sealer is not None:
            for reader in Reader:
                self._buffers[reader] = call_memory.DeviceBuffer(device=self._device, numbers=self._area_numbers)

    def _warm_up(self) -> None:
        """Bring the GPU to its steady clocks, so that the first block is measured like the last."""
        if self._device.type != "cuda":
            return
        square = torch.randn(4096, 4096, dtype=torch.bfloat16, device=self._device)
        start = time.monotonic()
        end = start + (_WARM_S if start - self._worked_at < _STAYS_WARM_S else _WARM_UP_S)
        while time.monotonic() < end:
            for _ in range(10):
                torch.matmul(square, square)
            torch.cuda.synchronize()

    def _warm(self, _message: messages.Body, _descriptors: list[int]) -> Reply:
        self._warm_up()
        return {}, []

    def _prepare(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """Draw a call's inputs; on a GPU seal them in shared memory, and fill the outputs' room with poison."""
        opened, reader = self._current(), Reader(message["reader"])
        buffer = self._buffers.get(reader)
        call = opened.call(message["draw"])
        arguments, room = opened.make_inputs(call), opened.room(call)
        if self._sealer is not None:
            self._sealer.use(bytes.fromhex(message["key"]))
        if buffer is not None:
            buffer.make_room(room)
            if message["poison"] is not None:
                traces.fill(buffer.outputs.bytes[:room], message["poison"])
        prepared = call_memory.prepare_inputs(
            opened.problem,
            arguments,
            groups=message["groups"],
            buffer=buffer,
            sealer=self._sealer,
            reuse=message["reuse"],
        )
        if reader is Reader.SANDBOX:
            self._prepared, self._room = prepared, room
        del arguments
        self.free_idle_memory()
        number, areas = (-1, []) if buffer is None else buffer.announcement(message["mapped"])
        described = {"tensors": prepared.owners, "bytes": prepared.size, "layout": prepared.layout}
        return described | {"areas": number, "room": room}, [prepared.file, *areas]

    def _compare(self, message: messages.Body, descriptors: list[int]) -> Reply:
        opened = self._current()
        call, header = opened.call(message["draw"]), message["header"]
        with mmap.mmap(descriptors[0], 0) as buffer:
            area = self._buffer.take(_end_of(header)) if self._buffers else buffer
            checked = opened.examiner.examine(call, header, area)
            if any(each.verdict is not None for each in checked):
                checked = _with_reasons(checked, opened, call, message, area)
            taken = self._traces(message, area) | {"digest": traces.digest_of(header, area)}
            del area
        changed = self._changed_input(opened, call)
        self.free_idle_memory()
        return taken | {"checks": checked, "changed": changed}, []

    def _differ(self, message: messages.Body, descriptors: list[int]) -> Reply:
        """How outputs differ from the reference's by the published rule; first the submission's, then those."""
        names = [output.name for output in self._current().problem.outputs]
        with ExitStack() as mapped:
            found = []
            for reader, header, descriptor in zip(Reader, message["headers"], descriptors, strict=True):
                file = mapped.enter_context(mmap.mmap(descriptor, 0))
                area = self._buffers[reader].take(_end_of(header)) if self._buffers else file
                found.append(published_rule.outputs_of(header, area, device=self._device))
            differs = published_rule.difference(*found, names=names)
            del found, area
        self.free_idle_memory()
        return {"differs": differs}, []

    def _mark(self, message: messages.Body, descriptors: list[int]) -> Reply:
        """The fingerprint of outputs that are not compared."""
        with mmap.mmap(descriptors[0], 0) as buffer:
            return self._traces(message, self._buffer.outputs.bytes if self._buffers else buffer), []

    def _watch(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """Wait beside the host for the end of a sandbox rank's call, and copy samples of its memory then."""
        assert self._prepared is not None
        buffer, begin = self._buffer, self._prepared.data
        if self._end_check is None:
            ends = Ends(mmap.mmap(self._setup.ends, ends_page.BYTES))
            self._end_check = EndCheck(ends, rank=self._setup.rank, device=self._device)
        limits = (begin + self._prepared.size, self._room)
        areas = [
            (buffer.inputs.bytes, SamplePattern.drawn(begin, limits[0], secret=secrets.randbits(32))),
            (buffer.outputs.bytes, SamplePattern.drawn(OUTPUT_HEADER_BYTES, limits[1], secret=secrets.randbits(32))),
        ]
        late_ns = self._end_check.watch(message["ticket"], areas, limit_s=message["limit_s"])
        return {"late_ns": late_ns}, []

    def _traces(self, message: messages.Body, area: Area) -> messages.Body:
        """The fingerprint of outputs, and the areas that differ from their samples at the end of the call."""
        unlike = [] if self._end_check is None else self._end_check.unlike()
        if any(entry.get("device") == "cpu" for entry in message["header"]):
            # Outputs in the host's memory are complete at the end, and copied here after it.
            unlike = [which for which in unlike if which != _OUTPUTS]
        return {"mark": self._mark_of(message, area), "unlike": unlike}

    def _mark_of(self, message: messages.Body, area: Area) -> str | None:
        if self._sealer is None:
            return traces.fingerprint_of(message["header"], area)
        return traces.mark_of(message["header"], area, sealer=self._sealer, key=bytes.fromhex(message["key"]))

    def _changed_input(self, opened: Opened, call: Call) -> str | None:
        """An argument in shared device memory that the call changed and must not change."""
        if not self._buffers or self._prepared is None:
            return None
        mutable = {argument.name for argument in opened.problem.arguments if argument.mutable or argument.scratch}
        return call_memory.changed_input(self._prepared, opened.make_inputs(call), buffer=self._buffer, mutable=mutable)

    @property
    def _buffer(self) -> call_memory.DeviceBuffer:
        """The device memory of the sandbox rank."""
        return self._buffers[Reader.SANDBOX]

    def _current(self) -> Opened:
        if self._opened is None:
            raise RuntimeError("the host asked for a call before it opened a problem")
        return self._opened


def _with_reasons(
    checked: list[CheckedOutput], opened: Opened, call: Call, message: messages.Body, area: Area
) -> list[CheckedOutput]:
    """`checked` with the earlier call whose outputs these are, and with what was never written."""
    header, earlier = message["header"], [opened.call(draw) for draw in message["earlier"]]
    stale = opened.examiner.stale_source(call, header, area, earlier=earlier)
    shares = [] if message["poison"] is None else traces.unwritten_shares(header, area, message["poison"])
    if len(shares) != len(checked):  # with a wrong structure, checks and outputs do not correspond
        shares = [0.0] * len(checked)
    pairs = zip(checked, shares, strict=True)
    return [msgspec.structs.replace(each, stale=stale, unwritten=share) for each, share in pairs]


def _end_of(header: list[dict[str, Any]]) -> int:
    """Bytes of the outputs' area up to the end of the last output in it."""
    ends = [
        entry["start"] + math.prod(entry["shape"]) * getattr(torch, entry["dtype"]).itemsize
        for entry in header
        if "other" not in entry and entry["start"] >= 0
    ]
    return max(ends, default=0)


def usual_room(problem: Problem, examiner: Examiner, call: Call) -> int:
    """Bytes of room for a rank's outputs in any call in no regime, where input values decide their length.

    Another call than `call` may expect many times more (15 times was seen). The sum over all ranks hardly varies,
    because ranks exchange it. The room is for the whole sum, or for four times a rank's part, and at least for twice
    its own.
    """
    of_ranks = [expected_bytes(problem, examiner, replace(call, rank=rank)) for rank in range(call.world_size)]
    part = min(1.0, _MOST_PARTS / call.world_size)
    return 2 * OUTPUT_HEADER_BYTES + max(2 * of_ranks[call.rank], align(math.ceil(sum(of_ranks) * part * _SPARE)))


def expected_bytes(problem: Problem, examiner: Examiner, call: Call) -> int:
    """Bytes of what a rank has to return in `call`, each output aligned as in its room."""
    return _bytes_of(problem, call, [output.numel() for output in examiner.expected(call)])


def _bytes_of(problem: Problem, call: Call, elements: Sequence[int]) -> int:
    pairs = zip(elements, problem.outputs, strict=True)
    return sum(align(count * dtype_of(output, call).itemsize) for count, output in pairs)
