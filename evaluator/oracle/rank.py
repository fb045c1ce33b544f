"""One oracle rank: answers the host's commands, one reply each, until the host goes away."""

import importlib
import math
import mmap
import os
import secrets
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
import torch.distributed as dist

from evaluator.arena.clock import Barrier, CpuRunner, GpuRunner, Runner
from evaluator.arena.gate import Gate, Sealer
from evaluator.arena.process_group import join
from evaluator.arena.protocol import BARRIER_BYTES, CLOCK_PAGE_BYTES, OUTPUT_HEADER_BYTES
from evaluator.arena.structure import Area, align
from evaluator.contract import SlotKind
from evaluator.oracle import call_memory, canary, messages, traces
from evaluator.oracle.contents import NearCall
from evaluator.oracle.reference_call import ReferenceMemory
from evaluator.oracle.verify import Examiner, output_dtype
from evaluator.oracle.witness import Places, Witness
from problems import registry
from problems.schema import Problem, Regime, SizeName
from problems.values import Arguments, Call

_WARM_UP_S, _WARM_S = 0.3, 0.03
"""Seconds of matrix products before a size is measured: so that an idle GPU has reached its clocks, and where it was at
work a moment ago."""

_STAYS_WARM_S = 2.0

_MOST_PARTS, _SPARE = 4, 1.125
"""So many times the mean over ranks a rank's outputs are expected to take at most, and a rest."""

_OUTPUTS = 1
"""The place of the outputs among the areas of which samples are taken; inputs come first."""

Reply = tuple[messages.Body, list[int]]


@dataclass(frozen=True, kw_only=True)
class Place:
    """What an oracle rank is given."""

    rank: int
    world_size: int
    device: str
    process_group: str
    store: str
    channel: int
    barrier: int
    clock: int
    attentive_s: float


@dataclass(frozen=True, kw_only=True)
class Room:
    """What is alike for all contents of a size: the process groups a rank takes part in, and room for its outputs."""

    groups: list[list[int]]
    output_bytes: int


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The problem, size and dtype that calls are made for."""

    problem: Problem
    examiner: Examiner
    template: Call
    make_inputs: Callable[[Call], Arguments]
    reference: Callable[..., Any]
    output_bytes: int

    def call(self, content: messages.Body) -> Call:
        """The call whose contents the host names: `call` by number, `near` another one or None, `regime` or ""."""
        call = replace(self.template, index=content["call"])
        if content["regime"]:
            call = in_regime(call, self.problem.regime(content["regime"]))
        if content["near"] is None:
            return call
        known = {field.name: getattr(call, field.name) for field in fields(Call)}
        return NearCall(**known, base=content["near"])


def in_regime(call: Call, regime: Regime) -> Call:
    """The same call in `regime`."""
    return replace(call, regime=regime, dims={**call.dims, **regime.dims})


class OracleRank:
    """The state of one oracle rank."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._device = torch.device(place.device, place.rank) if place.device == "cuda" else torch.device("cpu")
        self._groups: dict[tuple[int, ...], Any] = {}
        self._opened: Opened | None = None
        self._sealer: Sealer | None = None
        self._slot: call_memory.DeviceSlot | None = None
        self._prepared: call_memory.Prepared | None = None
        self._memory: ReferenceMemory | None = None
        self._witness: Witness | None = None
        self._worked_at = -math.inf
        self._rooms: dict[tuple[str, str, str], Room] = {}

    def serve(self) -> None:
        """Join the oracle's process group, then answer until the host closes its end."""
        place = self._place
        channel = socket.socket(fileno=place.channel)
        join(place.process_group, rank=place.rank, world_size=place.world_size, device=self._device, store=place.store)
        page = mmap.mmap(place.barrier, BARRIER_BYTES)
        self._barrier = Barrier(page, rank=place.rank, world_size=place.world_size)
        self._runner = self._new_runner()
        messages.send(channel, {"ready": True})
        while (message := messages.receive(channel, attentive_s=self._attentive_s())) is not None:
            body, descriptors = self._answer(*message)
            messages.send(channel, body, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def _new_runner(self) -> Runner:
        if self._device.type != "cuda":
            return CpuRunner(self._barrier)
        self._sealer = Sealer(self._device, rank=self._place.rank)
        page = mmap.mmap(self._place.clock, CLOCK_PAGE_BYTES)
        return GpuRunner(self._device, Gate(page, sealer=self._sealer, rank=self._place.rank))

    def _attentive_s(self) -> float:
        """Before its first evaluation a rank may sleep at once."""
        return self._place.attentive_s if self._opened is not None else 0.0

    def _answer(self, message: messages.Body, descriptors: list[int]) -> Reply:
        handlers: dict[str, Callable[[messages.Body, list[int]], Reply]] = {
            "open": self._open,
            "prepare": self._prepare,
            "compare": self._compare,
            "mark": self._mark,
            "watch": self._watch,
            "load": self._load,
            "go": self._go,
            "empty": self._empty,
            "bare": self._bare,
            "warm": self._warm,
            "loop": self._loop,
            "canary": self._canary,
        }
        try:
            with torch.no_grad():
                return handlers[message["command"]](message, descriptors)
        except Exception:  # noqa: BLE001 - whatever goes wrong here is the judge's failure and must reach the host
            return {"error": traceback.format_exc()}, []
        finally:
            self._worked_at = time.monotonic()
            for descriptor in descriptors:
                os.close(descriptor)

    def _canary(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """Whether this rank's device still calculates and communicates exactly."""
        place = self._place
        found = canary.failures(
            device=self._device, rank=place.rank, world_size=place.world_size, is_full=message["is_full"]
        )
        return {"failures": found}, []

    def _open(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        problem = registry.get(message["problem"])
        package = registry.package(problem.slug)
        place = self._place
        # What the last size left takes memory that this one may need.
        self._prepared = None
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self._slot is not None:
            self._slot.close()
            self._slot = None
        size = SizeName(message["size"])
        template = Call(
            key=bytes.fromhex(message["key"]),
            index=0,
            rank=place.rank,
            world_size=place.world_size,
            dims=problem.dims(size, place.world_size),
            dtype=getattr(torch, message["dtype"]),
            device=self._device,
        )
        examiner = Examiner(problem)
        make_inputs = importlib.import_module(f"{package}.inputs").make_inputs
        known = (message["problem"], message["size"], message["dtype"])
        if known not in self._rooms:
            self._rooms[known] = Room(
                groups=call_memory.groups_of(make_inputs(template)),
                output_bytes=max(
                    output_room(problem, examiner, call) for call in _with_regimes(problem, template, size)
                ),
            )
        room = self._rooms[known]
        self._opened = Opened(
            problem=problem,
            examiner=examiner,
            template=template,
            make_inputs=make_inputs,
            reference=importlib.import_module(f"{package}.reference").solution,
            output_bytes=room.output_bytes,
        )
        self._renew_slot(room.output_bytes)
        self._warm_up()
        return {
            "groups": room.groups,
            "dims": dict(template.dims),
            "output_bytes": room.output_bytes,
            "slots": SlotKind.HOST_MEMORY if self._slot is None else SlotKind.DEVICE_MEMORY,
        }, []

    def _renew_slot(self, output_bytes: int) -> None:
        """New device memory for every size of every evaluation: nothing of an earlier one is left in it."""
        if self._sealer is not None:
            self._slot = call_memory.DeviceSlot(output_bytes=output_bytes, device=self._device)

    def _warm_up(self) -> None:
        """Bring the GPU to the clocks of steady work, so that the first block is measured like the last."""
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
        """Draw a call's inputs; on a GPU they lie sealed in shared memory, and the outputs' room is poisoned."""
        opened = self._current()
        arguments = opened.make_inputs(opened.call(message["content"]))
        if self._sealer is not None:
            self._sealer.use(bytes.fromhex(message["key"]))
        if self._slot is not None:
            if message["anew"]:
                self._slot.withdraw()
            if message["poison"] is not None:
                traces.fill(self._slot.outputs.bytes[: opened.output_bytes], message["poison"])
        prepared = call_memory.prepare_inputs(
            opened.problem,
            arguments,
            groups=message["groups"],
            slot=self._slot,
            sealer=self._sealer,
            reuse=message["reuse"],
        )
        self._prepared = prepared
        areas = self._slot.announcement() if self._slot is not None else []
        return {"tensors": prepared.owners, "bytes": prepared.size}, [prepared.file, *areas]

    def _compare(self, message: messages.Body, descriptors: list[int]) -> Reply:
        opened = self._current()
        call, header = opened.call(message["content"]), message["header"]
        with mmap.mmap(descriptors[0], 0) as buffer:
            area = buffer if self._slot is None else self._slot.take(_end_of(header))
            checks = opened.examiner.examine(call, header, area)
            stale, unwritten = None, []
            if any(check.verdict is not None for check in checks):
                earlier = [opened.call(content) for content in message["earlier"]]
                stale = opened.examiner.stale_source(call, header, area, earlier=earlier)
                if message["poison"] is not None:
                    unwritten = traces.unwritten_shares(header, area, message["poison"])
            answer = {"checks": [check.as_message() for check in checks], "stale": stale, "unwritten": unwritten}
            taken = self._traces(message, area) | {"digest": traces.digest_of(header, area)}
        return answer | taken | {"changed": self._changed_input(opened, call)}, []

    def _mark(self, message: messages.Body, descriptors: list[int]) -> Reply:
        """The fingerprint of outputs that are not compared."""
        with mmap.mmap(descriptors[0], 0) as buffer:
            return self._traces(message, buffer if self._slot is None else self._slot.outputs.bytes), []

    def _watch(self, message: messages.Body, descriptors: list[int]) -> Reply:
        """Wait beside the host for the end of a sandbox rank's call, and copy samples of its memory then."""
        assert self._slot is not None
        assert self._prepared is not None
        slot, begin = self._slot, self._prepared.data
        if self._witness is None:
            self._witness = Witness(rank=self._place.rank, device=self._device)
        ends = (begin + self._prepared.size, self._current().output_bytes)
        areas = [
            (slot.inputs.bytes, Places.drawn(begin, ends[0], secret=secrets.randbits(32))),
            (slot.outputs.bytes, Places.drawn(OUTPUT_HEADER_BYTES, ends[1], secret=secrets.randbits(32))),
        ]
        with mmap.mmap(descriptors[0], CLOCK_PAGE_BYTES) as page:
            late_ns = self._witness.watch(page, message["number"], areas, limit_s=message["limit_s"])
        return {"late_ns": late_ns}, []

    def _traces(self, message: messages.Body, area: Area) -> messages.Body:
        """The fingerprint of outputs, and which samples of shared memory are no longer what they were at the end."""
        unlike = [] if self._witness is None else self._witness.unlike()
        if any(entry.get("device") == "cpu" for entry in message["header"]):
            # Outputs in the host's memory are complete at the end, and copied here after it.
            unlike = [which for which in unlike if which != _OUTPUTS]
        return {"mark": self._mark_of(message, area), "unlike": unlike}

    def _mark_of(self, message: messages.Body, area: Area) -> str | None:
        if self._sealer is None:
            return traces.fingerprint_of(message["header"], area)
        return traces.mark_of(message["header"], area, sealer=self._sealer, key=bytes.fromhex(message["key"]))

    def _changed_input(self, opened: Opened, call: Call) -> str | None:
        """An argument that the call changed though it may not, told from shared device memory."""
        if self._slot is None or self._prepared is None:
            return None
        mutable = {argument.name for argument in opened.problem.arguments if argument.mutable or argument.scratch}
        return call_memory.changed_input(self._prepared, opened.make_inputs(call), slot=self._slot, mutable=mutable)

    def _load(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """Have the reference's arguments of a call lie ready, and make the process groups that they name."""
        opened = self._current()
        if self._memory is None:
            self._memory = ReferenceMemory(
                opened.problem, output_bytes=opened.output_bytes, device=self._device, sealer=self._sealer
            )
        if self._sealer is not None:
            self._sealer.use(bytes.fromhex(message["key"]))
        values = opened.make_inputs(opened.call(message["content"]))
        size = self._memory.lay_out(values, groups=message["groups"], group_of=self._group)
        return {"bytes": size}, []

    def _go(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """One call of the reference on what was loaded."""
        memory = self._loaded()
        slot = memory.call(group_of=self._group)
        timed = self._runner.run(self._current().reference, slot, number=message["number"])
        memory.note(timed.returned)
        returned = [tensor for tensor in timed.returned if isinstance(tensor, torch.Tensor)]
        size = sum(tensor.numel() * tensor.element_size() for tensor in returned)
        return {"claimed_ns": timed.claimed_ns, "bytes": size}, []

    def _empty(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """A call like the reference's in which nothing is computed."""
        slot = self._loaded().empty_call(group_of=self._group)
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        self._runner.run(lambda *_: None, slot, number=message["number"])
        return {}, []

    def _bare(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """A call of nothing without any bytes."""
        self._runner.run_nothing(number=message["number"])
        return {}, []

    def _loop(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """The reference back to back on the inputs of its last call; the host's clock runs."""
        reference, arguments = self._current().reference, self._loaded().last.arguments
        self._barrier.wait()
        for _ in range(message["times"]):
            reference(*arguments)
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return {}, []

    def _loaded(self) -> ReferenceMemory:
        if self._memory is None:
            raise RuntimeError("the host asked for a call of the reference before it was loaded")
        return self._memory

    def _group(self, ranks: tuple[int, ...]) -> Any:
        if len(ranks) == self._place.world_size:
            return dist.group.WORLD
        if ranks not in self._groups:
            self._groups[ranks] = dist.new_group(list(ranks))
        return self._groups[ranks]

    def _current(self) -> Opened:
        if self._opened is None:
            raise RuntimeError("the host opened no problem before asking for a call")
        return self._opened


def _end_of(header: list[dict[str, Any]]) -> int:
    """Bytes of the outputs' area up to the end of the last output in it."""
    ends = [
        entry["start"] + math.prod(entry["shape"]) * getattr(torch, entry["dtype"]).itemsize
        for entry in header
        if "other" not in entry and entry["start"] >= 0
    ]
    return max(ends, default=0)


def output_room(problem: Problem, examiner: Examiner, call: Call) -> int:
    """Bytes of room for a rank's outputs in any call at the size of `call`: what it owes in this one.

    Outputs of another shape or dtype may not fit; they are refused by their description. Where the length of an output
    follows from contents, another call may owe many times more (15 times was seen). What all ranks together owe hardly
    varies then, for it is what they gave each other: the room is for all of it, or for four times a rank's part, and
    twice its own at least. Where the root of a collective returns more than the others, any rank may be the root of a
    later call.
    """
    room = _owed_bytes(problem, examiner, call)
    symbols = {symbol for output in problem.outputs for symbol in output.shape if isinstance(symbol, str)}
    if not symbols <= call.dims.keys() or call.regime is not None:
        ranks = range(call.world_size)
        together = sum(_owed_bytes(problem, examiner, replace(call, rank=rank)) for rank in ranks)
        # In a regime one rank may have everything.
        part = 1.0 if call.regime is not None else min(1.0, _MOST_PARTS / call.world_size)
        room = max(2 * room, align(math.ceil(together * part * _SPARE)))
    return OUTPUT_HEADER_BYTES + room + OUTPUT_HEADER_BYTES


def _with_regimes(problem: Problem, call: Call, size: SizeName) -> list[Call]:
    """`call`, and the calls of those regimes in which a rank may owe outputs of another length."""
    symbols = {symbol for output in problem.outputs for symbol in output.shape if isinstance(symbol, str)}
    regimes = problem.regimes_at(size, call.world_size)
    varies = not symbols <= call.dims.keys()
    longer = [regime for regime in regimes if varies or not regime.at_large or regime.dims.keys() & symbols]
    return [call, *(in_regime(call, regime) for regime in longer)]


def _owed_bytes(problem: Problem, examiner: Examiner, call: Call) -> int:
    owed = 0
    for output, right in zip(problem.outputs, examiner.expected(call), strict=True):
        is_rooted = output.shape_elsewhere is not None
        elements = math.prod(call.shape(output.shape)) if is_rooted else right.numel()
        owed += align(elements * output_dtype(call, output).itemsize)
    return owed
