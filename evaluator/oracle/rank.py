"""One oracle rank: answers the host's commands, one reply each, until the host goes away."""

import importlib
import math
import mmap
import os
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
import torch.distributed as dist

from evaluator.arena.clock import Barrier, Stopwatch
from evaluator.arena.device_memory import is_available as has_shared_memory
from evaluator.arena.process_group import join
from evaluator.arena.protocol import BARRIER_BYTES, OUTPUT_HEADER_BYTES
from evaluator.arena.structure import align
from evaluator.contract import SlotKind
from evaluator.oracle import call_memory, canary, messages, traces
from evaluator.oracle.contents import NearCall
from evaluator.oracle.desk import Desk
from evaluator.oracle.verify import Examiner, output_dtype
from problems import registry
from problems.groups import Group
from problems.modules import Module, build
from problems.schema import Problem, SizeName
from problems.values import Arguments, Call

_WARM_UP_S, _WARM_S = 0.3, 0.03
"""Seconds of matrix products before a size is measured: so that an idle GPU has reached its clocks, and where it was at
work a moment ago."""

_STAYS_WARM_S = 2.0

_MOST_PARTS, _SPARE = 4, 1.125
"""So many times the mean over ranks a rank's outputs are expected to take at most, and a rest."""

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
        """The call whose contents the host names: `call` by number, `near` another one or None."""
        known = {field.name: getattr(self.template, field.name) for field in fields(Call)}
        known["index"] = content["call"]
        return Call(**known) if content["near"] is None else NearCall(**known, base=content["near"])


class OracleRank:
    """The state of one oracle rank."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._device = torch.device(place.device, place.rank) if place.device == "cuda" else torch.device("cpu")
        self._groups: dict[tuple[int, ...], Any] = {}
        self._opened: Opened | None = None
        self._arguments: list[Any] = []
        self._slot: call_memory.DeviceSlot | None = None
        self._desk: Desk | None = None
        self._worked_at = -math.inf
        self._rooms: dict[tuple[str, str, str], Room] = {}

    def serve(self) -> None:
        """Join the oracle's process group, then answer until the host closes its end."""
        place = self._place
        channel = socket.socket(fileno=place.channel)
        join(place.process_group, rank=place.rank, world_size=place.world_size, device=self._device, store=place.store)
        page = mmap.mmap(place.barrier, BARRIER_BYTES)
        self._stopwatch = Stopwatch(self._device, Barrier(page, rank=place.rank, world_size=place.world_size))
        messages.send(channel, {"ready": True})
        while (message := messages.receive(channel, attentive_s=self._attentive_s())) is not None:
            body, descriptors = self._answer(*message)
            messages.send(channel, body, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def _attentive_s(self) -> float:
        """Before its first evaluation a rank may sleep at once."""
        return self._place.attentive_s if self._opened is not None else 0.0

    def _answer(self, message: messages.Body, descriptors: list[int]) -> Reply:
        handlers: dict[str, Callable[[messages.Body, list[int]], Reply]] = {
            "open": self._open,
            "prepare": self._prepare,
            "publish": self._publish,
            "compare": self._compare,
            "load": self._load,
            "read": self._read,
            "go": self._go,
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
        self._arguments = []
        if self._desk is not None:
            self._desk.close()
            self._desk = None
        if self._slot is not None:
            self._slot.close()
            self._slot = None
        template = Call(
            key=bytes.fromhex(message["key"]),
            index=0,
            rank=place.rank,
            world_size=place.world_size,
            dims=problem.dims(SizeName(message["size"]), place.world_size),
            dtype=getattr(torch, message["dtype"]),
            device=self._device,
        )
        examiner = Examiner(problem)
        make_inputs = importlib.import_module(f"{package}.inputs").make_inputs
        known = (message["problem"], message["size"], message["dtype"])
        if known not in self._rooms:
            self._rooms[known] = Room(
                groups=call_memory.groups_of(make_inputs(template)),
                output_bytes=output_room(problem, examiner, template),
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
        if has_shared_memory(self._device):
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

    def _prepare(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        opened = self._current()
        arguments = opened.make_inputs(opened.call(message["content"]))
        if self._slot is not None and message["anew"]:
            self._slot.withdraw()
        try:
            prepared = call_memory.prepare_inputs(
                opened.problem,
                arguments,
                groups=message["groups"],
                slot=self._slot,
                place=message["place"],
                places=message["places"],
            )
        except call_memory.NoRoomError:
            return {"fits": False}, []
        if self._slot is not None and message["poison"] is not None and message["place"] == 0:
            traces.fill(self._slot.outputs.bytes[: message["places"] * opened.output_bytes], message["poison"])
            torch.cuda.synchronize()
        areas = self._slot.announcement() if self._slot is not None else []
        body = {"fits": True, "tensors": prepared.owners, "bytes": prepared.size, "room": prepared.room[0]}
        return body, [prepared.file, *areas]

    def _publish(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """Let the sandbox read what was prepared, or do as much with what was laid out; the host's clock runs."""
        if message["as_rank"]:
            self._busy_desk().publish()
        elif self._slot is not None:
            self._slot.publish()
        return {}, []

    def _compare(self, message: messages.Body, descriptors: list[int]) -> Reply:
        opened = self._current()
        call, header = opened.call(message["content"]), message["header"]
        with mmap.mmap(descriptors[0], 0) as buffer:
            area = buffer if self._slot is None else self._slot.take(len(buffer), start=message["room"])
            seen, digest = traces.fingerprint_of(header, area), traces.digest_of(header, area)
            checks = opened.examiner.examine(call, header, area)
            stale, unwritten = None, []
            if any(check.verdict is not None for check in checks):
                earlier = [opened.call(content) for content in message["earlier"]]
                stale = opened.examiner.stale_source(call, header, area, earlier=earlier)
                if message["poison"] is not None:
                    unwritten = traces.unwritten_shares(header, area, message["poison"])
        answer = {"checks": [check.as_message() for check in checks], "stale": stale}
        return answer | {"fingerprint": seen, "digest": digest, "unwritten": unwritten}, []

    def _load(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """Make the reference's arguments of a call and the process groups they name.

        For a call as a sandbox rank makes it they are only drawn and wait to be published.
        """
        opened = self._current()
        for ranks in message["groups"]:
            self._group(tuple(ranks))
        values = opened.make_inputs(opened.call(message["content"]))
        if message["as_rank"]:
            if self._desk is None:
                self._desk = Desk(opened.problem, output_bytes=opened.output_bytes, device=self._device)
            self._arguments = []
            self._desk.lay_out(values, groups=message["groups"])
        else:
            self._arguments = [self._real(value) for value in values.values()]
        if self._device.type == "cuda":
            torch.cuda.synchronize()  # what is still being drawn when the clock starts would count into the answer
        return {}, []

    def _read(self, _message: messages.Body, _descriptors: list[int]) -> Reply:
        """Read what was published at the desk, as a sandbox rank reads its call."""
        self._busy_desk().read(group_of=self._group)
        return {}, []

    def _go(self, message: messages.Body, _descriptors: list[int]) -> Reply:
        """Time one call of the reference on the loaded arguments."""
        opened = self._current()
        if message["as_rank"]:
            slot = self._busy_desk().slot
            timed = self._stopwatch.run(opened.reference, slot.arguments, collect=slot.collect)
            self._busy_desk().keep_books(timed.tensors)
        else:
            # Nobody looks at what the reference returns.
            timed = self._stopwatch.run(opened.reference, self._arguments, collect=lambda _: [])
        return {"claimed_ns": timed.claimed_ns, "settled_ns": timed.settled_ns}, []

    def _busy_desk(self) -> Desk:
        if self._desk is None:
            raise RuntimeError("the host asked for a call as a sandbox rank makes it before it was loaded")
        return self._desk

    def _real(self, value: Any) -> Any:
        """`value` with its references replaced by process groups and modules."""
        if isinstance(value, Group):
            return self._group(value.ranks)
        if isinstance(value, Module):
            return build(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._real(item) for item in value)
        if isinstance(value, dict):
            return {key: self._real(item) for key, item in value.items()}
        return value

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


def output_room(problem: Problem, examiner: Examiner, call: Call) -> int:
    """Bytes of room for a rank's outputs in any call at the size of `call`: twice what it owes in this one.

    Where the length of an output follows from contents, another call may owe many times more (15 times was seen). What
    all ranks together owe hardly varies then, for it is what they gave each other: the room is for all of it, or for
    four times a rank's part. Where the root of a collective returns more than the others, any rank may be the root of a
    later call.
    """
    room = 2 * _owed_bytes(problem, examiner, call)
    if any(symbol not in call.dims for output in problem.outputs for symbol in output.shape if isinstance(symbol, str)):
        ranks = range(call.world_size)
        together = sum(_owed_bytes(problem, examiner, replace(call, rank=rank)) for rank in ranks)
        part = min(1.0, _MOST_PARTS / call.world_size)
        room = max(room, align(math.ceil(together * part * _SPARE)))
    return OUTPUT_HEADER_BYTES + room + OUTPUT_HEADER_BYTES


def _owed_bytes(problem: Problem, examiner: Examiner, call: Call) -> int:
    owed = 0
    for output, right in zip(problem.outputs, examiner.expected(call), strict=True):
        is_rooted = output.shape_elsewhere is not None
        elements = math.prod(call.shape(output.shape)) if is_rooted else right.numel()
        owed += align(elements * output_dtype(call, output).itemsize)
    return owed
