"""One sandbox rank: import the submission, then answer each LOAD and GO of the host.

What this process says is a claim. It knows its own rank's inputs and nothing of seeds, expected values or verdicts.
"""

import array
import contextlib
import faulthandler
import importlib.util
import json
import mmap
import os
import shutil
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from evaluator.arena import attention, audit, device, records
from evaluator.arena.clock import Barrier, Stopwatch, Timed, copied
from evaluator.arena.counting import CollectiveCount
from evaluator.arena.fingerprint import is_plain_tensor
from evaluator.arena.flight import FlightNotes
from evaluator.arena.records import Command, CommandKind, Failure, Phase, Report, ReportKind
from evaluator.arena.structure import Area, Unpacker, align, copy_into, joined, read_head

_MAX_TEXT = records.DIARY_FLIGHT_START - records.DIARY_TEXT_START - 1


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a rank is given: who it is, where its submission lies, and its descriptors."""

    rank: int
    world_size: int
    device: str
    process_group: str
    source: str
    store: str
    channel: int
    diary: int
    barrier: int
    log: int
    attentive_s: float


class Diary:
    """Where the rank notes what it is doing, for the diagnosis of hangs; also takes the stacks dumped on SIGUSR1."""

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, records.DIARY_BYTES)
        self.call = 0
        self.flight = FlightNotes(self._page)
        os.lseek(descriptor, records.DIARY_STACK_START, os.SEEK_SET)
        faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True)
        self.flight.start()

    def note(self, phase: Phase) -> None:
        """Record where this rank is now."""
        records.PHASE_LAYOUT.pack_into(self._page, 0, phase, self.call, time.monotonic_ns())

    def explain(self, text: str) -> None:
        """Leave `text`, shortened in the middle, for the author."""
        raw = text.encode("utf-8", "replace").replace(b"\0", b"?")
        if len(raw) > _MAX_TEXT:
            raw = raw[: _MAX_TEXT // 2 - 20] + b"\n[...]\n" + raw[-_MAX_TEXT // 2 + 20 :]
        start = records.DIARY_TEXT_START
        self._page[start : start + len(raw) + 1] = raw + b"\0"


def _take_built_kernels() -> None:
    """Give Triton what was compiled ahead: its cache must be writable, /built is not. Every rank may do so at once."""
    built, cache = Path(os.environ.get("PKB_BUILT", "/built"), "triton"), Path(os.environ.get("TRITON_CACHE_DIR", "/"))
    # Without, the kernels are compiled in the first call.
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        for kernel in built.iterdir():
            private = cache / f".{kernel.name}.{os.getpid()}"
            shutil.copytree(kernel, private)
            try:
                private.rename(cache / kernel.name)
            except OSError:  # another rank was first
                shutil.rmtree(private, ignore_errors=True)


class Failed(Exception):
    """This rank cannot go on; the reason has a code for the host."""

    def __init__(self, failure: Failure, text: str) -> None:
        super().__init__(text)
        self.failure = failure
        self.text = text


class ChannelLost(Exception):
    """The channel to the host was closed from inside."""


@dataclass
class Slot:
    """A call between LOAD and DONE: its arguments, a copy of them to see changes, and where its outputs go.

    `output` takes the description of the outputs, `area` their elements: the same file, or shared device memory.
    """

    arguments: list[Any]
    tensors: list[torch.Tensor]
    mutable: frozenset[int]
    written: list[Any]
    nothing: frozenset[int]
    lists: frozenset[int]
    names: list[str]
    output: mmap.mmap
    area: Area
    before: list[torch.Tensor] = field(default_factory=list)
    returned: list[Any] = field(default_factory=list)


def run_rank(place: Place) -> None:
    """Be rank `place.rank` until the host closes the channel."""
    diary = Diary(place.diary)
    diary.note(Phase.STARTING)
    shim = Shim(place, diary)
    try:
        shim.start()
        while shim.obey():
            pass
    except Failed as failed:
        diary.explain(failed.text)
        shim.report(ReportKind.FAILED, detail=failed.failure)
        shim.wait_for_end()


class Shim:
    """The state of one rank."""

    def __init__(self, place: Place, diary: Diary) -> None:
        self._place = place
        self._diary = diary
        self._socket = socket.socket(fileno=place.channel)
        self._device = torch.device(place.device, place.rank) if place.device == "cuda" else torch.device("cpu")
        self._barrier = Barrier(
            mmap.mmap(place.barrier, records.BARRIER_BYTES), rank=place.rank, world_size=place.world_size
        )
        self._groups: dict[tuple[int, ...], Any] = {}
        self._solution: Callable[..., Any] | None = None
        self._slot: Slot | None = None
        self._input_area: device.DeviceMemory | None = None
        self._output_area: device.DeviceMemory | None = None

    def start(self) -> None:
        """Form the process group, prove it with one all-reduce, and say READY."""
        try:
            place = self._place
            join(
                place.process_group,
                rank=place.rank,
                world_size=place.world_size,
                device=self._device,
                store=place.store,
            )
            self._stopwatch = Stopwatch(self._device, self._barrier)
        except Exception as error:
            raise Failed(Failure.START, traceback.format_exc()) from error
        self._diary.note(Phase.WAITING)
        self.report(ReportKind.READY)

    def obey(self) -> bool:
        """Carry out the host's next command; False once the host has gone."""
        packet, descriptors = self._receive()
        if not packet:
            return False
        command = Command.unpack(packet)
        self._diary.call = command.call
        if command.kind is CommandKind.IMPORT:
            self._import()
        elif command.kind is CommandKind.LOAD:
            self._load(command, descriptors)
        elif command.kind is CommandKind.STORE:
            self._store(descriptors)
        else:
            self._go(command, descriptors)
        return True

    def report(self, kind: ReportKind, **values: int) -> None:
        """Send one record."""
        try:
            self._socket.send(Report(kind=kind, call=self._diary.call, **values).pack())
        except OSError as error:
            raise ChannelLost from error

    def wait_for_end(self) -> None:
        """Stay until the host closes the channel, so that peers are not disturbed by this rank's end."""
        self._diary.note(Phase.WAITING)
        while self._receive()[0]:
            pass

    def _receive(self) -> tuple[bytes, list[int]]:
        try:
            # A gang that waits for its submission may sleep; between calls its processors stay awake.
            attentive_s = self._place.attentive_s if self._solution is not None else 0.0
            packet, ancillary, _flags, _address = attention.receive(
                self._socket, 64, socket.CMSG_SPACE(16), attentive_s=attentive_s
            )
        except OSError as error:
            raise ChannelLost from error
        descriptors = array.array("i")
        for _level, _type, data in ancillary:
            descriptors.frombytes(data)
        return packet, list(descriptors)

    def _import(self) -> None:
        self._diary.note(Phase.IMPORTING)
        _take_built_kernels()
        path = Path(self._place.source) / "solution.py"
        sys.path.insert(0, self._place.source)
        try:
            self._solution = _entry_point(path)
        except Failed:
            raise
        except Exception as error:
            raise Failed(Failure.IMPORT, _author_traceback()) from error
        self._diary.note(Phase.WAITING)
        self.report(ReportKind.IMPORTED)

    def _load(self, command: Command, descriptors: list[int]) -> None:
        self._diary.note(Phase.LOADING)
        previous = self._slot.tensors if self._slot is not None and command.reuse else ()
        if self._slot is not None:
            self._slot.returned.clear()
        inputs, outputs, *areas = descriptors
        self._slot = self._read(inputs, outputs, areas, previous)
        for descriptor in descriptors:
            os.close(descriptor)
        self._diary.note(Phase.WAITING)
        self.report(ReportKind.LOADED)

    def _read(self, inputs: int, outputs: int, areas: Sequence[int], previous: Sequence[torch.Tensor]) -> Slot:
        with mmap.mmap(inputs, 0, flags=mmap.MAP_PRIVATE) as buffer:
            tree, data = read_head(buffer)
            for ranks in tree["groups"]:
                self._group(tuple(ranks))
            self._map(areas, tree["areas"])
            source: Area = buffer
            if self._input_area is not None:
                source, data = self._input_area.bytes, 0
            unpacker = Unpacker(source, data=data, device=self._device, group_of=self._group, previous=previous)
            arguments: list[Any] = []
            mutable: set[int] = set()
            for name, item in tree["arguments"]:
                first = len(unpacker.tensors)
                arguments.append(unpacker.unpack(item))
                if name in tree["mutable"]:
                    mutable.update(range(first, len(unpacker.tensors)))
        names = [name for name, _ in tree["arguments"]]
        written = [_located(place, dict(zip(names, arguments, strict=True))) for place in tree["outputs"]]
        output = mmap.mmap(outputs, 0)
        slot = Slot(
            arguments=arguments,
            tensors=unpacker.tensors,
            mutable=frozenset(mutable),
            written=written,
            nothing=frozenset(tree["nothing"]),
            lists=frozenset(tree["lists"]),
            names=tree["names"],
            output=output,
            area=output if self._output_area is None else self._output_area.bytes,
        )
        slot.before = [tensor.clone() for tensor in unpacker.tensors]
        return slot

    def _map(self, descriptors: Sequence[int], sizes: Sequence[int]) -> None:
        """Map the shared device memory that comes with the first call of a size; later calls find it mapped."""
        if descriptors:
            inputs, outputs = (
                device.DeviceMemory.received(descriptor, size=size, device=self._device)
                for descriptor, size in zip(descriptors, sizes, strict=True)
            )
            for old in (self._input_area, self._output_area):
                if old is not None:
                    old.close()
            self._input_area, self._output_area = inputs, outputs

    def _group(self, ranks: tuple[int, ...]) -> Any:
        """The process group of `ranks`; created once, by every rank in the order of the call's list."""
        if len(ranks) == self._place.world_size:
            return dist.group.WORLD
        if ranks not in self._groups:
            self._groups[ranks] = dist.new_group(list(ranks))
        return self._groups[ranks]

    def _go(self, command: Command, descriptors: Sequence[int]) -> None:
        assert self._slot is not None
        slot = self._slot
        self._diary.note(Phase.AT_START)
        self._diary.flight.call_begins()
        with CollectiveCount(is_wanted=command.count) as counted:
            timed = self._call(slot, delay_us=command.delay_us, audit_file=next(iter(descriptors), None))
        for descriptor in descriptors:
            os.close(descriptor)
        self._diary.note(Phase.STORING)
        store_outputs(slot.output, slot.area, timed.tensors)
        slot.output.close()
        slot.returned = timed.returned
        changed = _first_change(slot)
        if self._device.type == "cuda":
            torch.cuda.synchronize()  # the oracle reads the area as soon as the host hears DONE
        self._diary.note(Phase.WAITING)
        self.report(
            ReportKind.DONE,
            claimed_ns=timed.claimed_ns,
            settled_ns=timed.settled_ns,
            detail=changed,
            fingerprint=timed.fingerprint,
            moved=counted.moved,
        )

    def _store(self, descriptors: list[int]) -> None:
        """Store what the last call returned as it is now: a late writer may have finished by this time."""
        assert self._slot is not None
        self._diary.note(Phase.STORING)
        output = mmap.mmap(descriptors[0], 0)
        os.close(descriptors[0])
        area = output if self._output_area is None else self._output_area.bytes
        store_outputs(output, area, [copied(tensor) for tensor in self._slot.returned])
        output.close()
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        self._diary.note(Phase.WAITING)
        self.report(ReportKind.STORED)

    def _call(self, slot: Slot, *, delay_us: int, audit_file: int | None) -> Timed:
        assert self._solution is not None
        note = self._diary.note
        solution = self._solution
        if audit_file is not None:
            solution = audit.recorded(solution, descriptor=audit_file, device=self._device, line_up=self._barrier.wait)

        def called(*arguments: Any) -> Any:
            note(Phase.CALLING)
            value = solution(*arguments)
            note(Phase.SETTLING)
            return value

        def collect(value: Any) -> list[Any]:
            return interleave(value, slot.written, nothing=slot.nothing, lists=slot.lists, names=slot.names)

        try:
            return self._stopwatch.run(called, slot.arguments, collect=collect, delay_us=delay_us)
        except torch.OutOfMemoryError as error:
            raise Failed(Failure.OUT_OF_MEMORY, _author_traceback()) from error
        except MemoryError as error:
            raise Failed(Failure.OUT_OF_MEMORY, _author_traceback()) from error
        except Exception as error:
            raise Failed(Failure.RAISED, _author_traceback()) from error


def join(process_group: str, *, rank: int, world_size: int, device: torch.device, store: str) -> None:
    """Form the default process group over the file `store` and prove it with one all-reduce."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        process_group,
        store=FileStore(store, world_size),
        rank=rank,
        world_size=world_size,
        device_id=device if device.type == "cuda" else None,
    )
    token = torch.ones(1, device=device)
    dist.all_reduce(token)
    if int(token.item()) != world_size:
        raise RuntimeError(f"the first all-reduce of {world_size} ranks gave {token.item()}")


def _entry_point(path: Path) -> Callable[..., Any]:
    if not path.is_file():
        raise Failed(Failure.ENTRY, "the submission has no solution.py")
    spec = importlib.util.spec_from_file_location("solution", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["solution"] = module
    spec.loader.exec_module(module)
    entry: Any = getattr(module, "solution", None)
    if not callable(entry):
        raise Failed(Failure.ENTRY, "solution.py defines no function called `solution`")
    function: Callable[..., Any] = entry
    return function


def _author_traceback() -> str:
    """The traceback of the current exception without the frames of this file."""
    kind, error, trace = sys.exc_info()
    while trace is not None and "/evaluator/arena/" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    if trace is not None and "importlib" in trace.tb_frame.f_code.co_filename:
        while trace.tb_next is not None and "importlib" in trace.tb_frame.f_code.co_filename:
            trace = trace.tb_next
    return "".join(traceback.format_exception(kind, error, trace))


def _located(place: Sequence[Any] | None, arguments: dict[str, Any]) -> Any:
    """The argument, or the element of a list, that `place` names; None for an output that is returned."""
    if place is None:
        return None
    name, element = place
    return arguments[name] if element is None else arguments[name][element]


def interleave(
    value: Any,
    written: Sequence[Any],
    *,
    nothing: Collection[int] = (),
    lists: Collection[int] = (),
    names: Sequence[str] = (),
) -> list[Any]:
    """The outputs in the problem's order: what was returned, with written arguments where the problem has them.

    `written` has one entry per output: None where the output is returned, else the argument that holds it. At the
    places `nothing` of a returned tuple None is what the problem asks for. A torch.Size counts as a tensor of int64,
    a dict as its values in the order of the outputs' `names`, then any others. The outputs numbered in `lists` are
    lists of tensors, taken as their stack; a written one has the entries that the call left in it.
    """
    if type(value) is dict:
        value = [value[name] for name in names if name in value] + [value[key] for key in value if key not in names]
    returned = list(value) if type(value) in (tuple, list) else [value]
    returned = [item for place, item in enumerate(returned) if place not in nothing or item is not None]
    returned = [torch.tensor(list(item)) if type(item) is torch.Size else item for item in returned]
    expected = sum(item is None for item in written)
    if expected == 0 and value is None:
        returned = []
    if len(returned) != expected:
        return [*returned, *(item for item in written if item is not None)]
    rest = iter(returned)
    outputs = [next(rest) if item is None else item for item in written]
    return [joined(item) if place in lists else item for place, item in enumerate(outputs)]


def store_outputs(output: mmap.mmap, area: Area, tensors: Sequence[Any]) -> None:
    """Write a description of every output into the output file, and the elements of those that fit into the area."""
    start = records.OUTPUT_HEADER_BYTES
    described = []
    for tensor in tensors[:256]:
        if not is_plain_tensor(tensor):
            described.append({"other": type(tensor).__name__[:80]})
            continue
        size = tensor.numel() * tensor.element_size()
        stored = start + size <= len(area)
        described.append(_described(tensor, start if stored else -1))
        if stored:
            copy_into(area, start, tensor)
            start = align(start + size)
    text = json.dumps(described).encode()[: records.OUTPUT_HEADER_BYTES - 8]
    output[: 8 + len(text)] = struct.pack("<Q", len(text)) + text


def _described(tensor: torch.Tensor, start: int) -> dict[str, Any]:
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "device": tensor.device.type,
        "start": start,
    }


def _first_change(slot: Slot) -> int:
    """The number of the first tensor that the call changed though it may not; -1 where there is none."""
    for number, (tensor, before) in enumerate(zip(slot.tensors, slot.before, strict=True)):
        if number not in slot.mutable and not same_bytes(tensor, before):
            return number
    return -1


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors are alike to the bit; waits for the device."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return torch.equal(
        left.contiguous().reshape(-1).view(torch.uint8), right.contiguous().reshape(-1).view(torch.uint8)
    )
