"""One sandbox rank: imports the submission, then answers each LOAD and GO of the host.

Everything that this process reports is untrusted. It knows its own rank's inputs, but no seeds, expected outputs or
verdicts.
"""

import array
import contextlib
import faulthandler
import importlib.machinery
import importlib.util
import mmap
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evaluator.arena import busy_poll, protocol
from evaluator.arena.call_buffer import CallBuffer
from evaluator.arena.clock import Barrier, CallTiming, new_runner
from evaluator.arena.loaded_call import LoadedCall
from evaluator.arena.process_group import Membership, group_maker, join
from evaluator.arena.profiler import Recorder
from evaluator.arena.protocol import Command, CommandKind, Failure, Phase, Report, ReportKind
from evaluator.arena.rank.collective_count import CollectiveCount
from evaluator.arena.rank.flight_notes import FlightNotes

_MAX_TEXT = protocol.STATUS_FLIGHT_START - protocol.STATUS_TEXT_START - 1


@dataclass(frozen=True, kw_only=True)
class RankSetup(Membership):
    """What a rank of a submission is started with, beside that: the path of the submission, and two descriptors."""

    source: str
    status_page: int
    log: int


class StatusPage:
    """Where the rank notes what it is doing, for the diagnosis of hangs; also takes the stacks dumped on SIGUSR1."""

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, protocol.STATUS_BYTES)
        self.call = 0
        self.flight = FlightNotes(self._page)
        os.lseek(descriptor, protocol.STATUS_STACK_START, os.SEEK_SET)
        faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True)
        self.flight.start()

    def note(self, phase: Phase) -> None:
        """Record where this rank is now."""
        protocol.PHASE_LAYOUT.pack_into(self._page, 0, phase, self.call, time.monotonic_ns())

    def explain(self, text: str) -> None:
        """Leave `text`, shortened in the middle, for the author."""
        raw = text.encode("utf-8", "replace").replace(b"\0", b"?")
        if len(raw) > _MAX_TEXT:
            raw = raw[: _MAX_TEXT // 2 - 20] + b"\n[...]\n" + raw[-_MAX_TEXT // 2 + 20 :]
        start = protocol.STATUS_TEXT_START
        self._page[start : start + len(raw) + 1] = raw + b"\0"


def _take_built_kernels() -> None:
    """Copy kernels compiled ahead into Triton's cache, because /built is not writable. All ranks may do so at once."""
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


def run_rank(setup: RankSetup) -> None:
    """Run as rank `setup.rank` until the host closes the channel."""
    status_page = StatusPage(setup.status_page)
    status_page.note(Phase.STARTING)
    shim = Shim(setup, status_page)
    try:
        shim.start()
        while shim.obey():
            pass
    except Failed as failed:
        status_page.explain(failed.text)
        shim.report(ReportKind.FAILED, detail=failed.failure)
        shim.wait_for_end()


class Shim:
    """The state of one rank."""

    def __init__(self, setup: RankSetup, status_page: StatusPage) -> None:
        self._setup = setup
        self._status_page = status_page
        self._socket = socket.socket(fileno=setup.channel)
        self._device = setup.own_device
        self._barrier = Barrier(setup.barrier, rank=setup.rank, world_size=setup.world_size)
        self._solution: Callable[..., Any] | None = None
        self._buffer = CallBuffer(self._device, group_of=group_maker(setup.world_size))
        self._recorder: Recorder | None = None

    def start(self) -> None:
        """Form the process group, prove it with one all-reduce, and report READY."""
        try:
            setup = self._setup
            join(setup)
            self._runner = new_runner(self._device, self._barrier, clock=setup.clock, rank=setup.rank)
        except Exception as error:
            raise Failed(Failure.START, traceback.format_exc()) from error
        self._status_page.note(Phase.WAITING)
        self.report(ReportKind.READY)

    def obey(self) -> bool:
        """Carry out the host's next command; False once the host has gone."""
        packet, descriptors = self._receive()
        if not packet:
            return False
        command = Command.unpack(packet)
        self._status_page.call = command.call
        handlers: dict[CommandKind, Callable[[Command, list[int]], None]] = {
            CommandKind.IMPORT: self._import,
            CommandKind.LOAD: self._load,
            CommandKind.GO: self._go,
            CommandKind.STORE: self._store,
            CommandKind.BARE: self._bare,
            CommandKind.LOOP: self._loop,
            CommandKind.RECORD: self._record,
        }
        handlers[command.kind](command, descriptors)
        return True

    def report(self, kind: ReportKind, **values: int) -> None:
        """Send one record."""
        try:
            self._socket.send(Report(kind=kind, call=self._status_page.call, **values).pack())
        except OSError as error:
            raise ChannelLost from error

    def wait_for_end(self) -> None:
        """Stay until the host closes the channel, so that peers are not disturbed by this rank's end."""
        self._status_page.note(Phase.WAITING)
        while self._receive()[0]:
            pass

    def _receive(self) -> tuple[bytes, list[int]]:
        try:
            # A worker group that waits for its submission may sleep; between calls it busy-polls.
            busy_poll_s = self._setup.busy_poll_s if self._solution is not None else 0.0
            packet, ancillary, _flags, _address = busy_poll.receive(
                self._socket, 64, socket.CMSG_SPACE(16), busy_poll_s=busy_poll_s
            )
        except OSError as error:
            raise ChannelLost from error
        descriptors = array.array("i")
        for _level, _type, data in ancillary:
            descriptors.frombytes(data)
        return packet, list(descriptors)

    def _import(self, _command: Command, _descriptors: list[int]) -> None:
        self._status_page.note(Phase.IMPORTING)
        # None runs the submission before all have the command: what ends a rank earlier is no submission.
        self._barrier.wait()
        _take_built_kernels()
        path = Path(self._setup.source) / "solution.py"
        sys.path.insert(0, self._setup.source)
        _read_as_checked(self._setup.source)
        try:
            self._solution = _entry_point(path)
        except Failed:
            raise
        except Exception as error:
            raise Failed(Failure.IMPORT, _author_traceback()) from error
        self._status_page.note(Phase.WAITING)
        self.report(ReportKind.IMPORTED)

    def _bare(self, command: Command, _descriptors: list[int]) -> None:
        """A bare call: the overhead of a call, before a submission is in this process."""
        self._runner.run_nothing(number=command.call)
        self.report(ReportKind.DONE)

    def _load(self, _command: Command, descriptors: list[int]) -> None:
        """Take the file for the outputs, and on a GPU make the arguments; a CPU rank gets its inputs with GO."""
        self._status_page.note(Phase.LOADING)
        self._buffer.load(descriptors)
        self._status_page.note(Phase.WAITING)
        self.report(ReportKind.LOADED)

    def _record(self, _command: Command, descriptors: list[int]) -> None:
        """Start to record what runs, until the end of the next call, into a file."""
        self._status_page.note(Phase.LOADING)
        self._recorder = Recorder(descriptors[0], device=self._device)
        self._status_page.note(Phase.WAITING)
        self.report(ReportKind.RECORDING)

    def _go(self, command: Command, descriptors: list[int]) -> None:
        self._status_page.note(Phase.AT_START)
        self._status_page.flight.call_begins()
        if self._device.type != "cuda":
            self._buffer.take_inputs(descriptors.pop(0), reuse=command.reuse)
        loaded = self._buffer.call
        with CollectiveCount(is_wanted=command.count) as counted:
            timed = self._call(loaded, command)
        self._status_page.note(Phase.STORING)
        loaded.output.close()
        loaded.returned = timed.returned
        changed = loaded.first_change()
        self._status_page.note(Phase.WAITING)
        self.report(
            ReportKind.DONE,
            claimed_ns=timed.claimed_ns,
            detail=changed,
            fingerprint=timed.fingerprint,
            moved=counted.moved,
        )

    def _loop(self, command: Command, _descriptors: list[int]) -> None:
        """Run the submission `times` times, back to back, on the inputs of the last call; the host's clock runs."""
        assert self._solution is not None
        solution, groups = self._noted(self._solution), self._buffer.call.groups(command.groups)
        self._status_page.note(Phase.AT_START)
        self._barrier.wait()
        with _blamed():
            for number in range(command.times):
                solution(*groups[number % len(groups)])
            self._finish()
        self._status_page.note(Phase.WAITING)
        self.report(ReportKind.LOOPED)

    def _finish(self) -> None:
        """Wait for the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def _noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps `function`: the status page shows when it is called and when it returned."""
        note = self._status_page.note

        def called(*arguments: Any) -> Any:
            note(Phase.CALLING)
            value = function(*arguments)
            note(Phase.SYNCHRONIZING)
            return value

        return called

    def _store(self, _command: Command, descriptors: list[int]) -> None:
        """Store what the last call returned as it is now, which shows late writes."""
        self._status_page.note(Phase.STORING)
        self._buffer.store_again(descriptors[0])
        self._finish()
        self._status_page.note(Phase.WAITING)
        self.report(ReportKind.STORED)

    def _call(self, loaded: LoadedCall, command: Command) -> CallTiming:
        assert self._solution is not None
        recorder, self._recorder = self._recorder, None
        solution = self._solution if recorder is None else recorder.around(self._solution)
        with _blamed():
            timed = self._runner.run(
                self._noted(solution),
                loaded,
                number=command.call,
                delay_us=command.delay_us,
                is_open=command.is_open,
                goes_on=command.goes_on,
            )
        if recorder is not None:
            recorder.finish()
        return timed


@contextlib.contextmanager
def _blamed() -> Iterator[None]:
    """Turns errors inside into failures of the submission."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise Failed(Failure.OUT_OF_MEMORY, _author_traceback()) from error
    except Exception as error:
        raise Failed(Failure.RAISED, _author_traceback()) from error


class _CheckedText(importlib.machinery.SourceFileLoader):
    """Compiles exactly the checked text: as UTF-8, whatever a coding cookie says."""

    # The import system calls it on the loader; its stubs know the static form of another class alone.
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # type: ignore[override]
        """The code of a file's bytes."""
        text = bytes(data).decode("utf-8")
        return compile(text, path, "exec", dont_inherit=True, optimize=_optimize)


def _read_as_checked(folder: str) -> None:
    """Have every module in `folder` imported through `_CheckedText`."""
    finder = importlib.machinery.FileFinder(folder, (_CheckedText, [".py"]))
    sys.path_importer_cache[folder] = finder


def _entry_point(path: Path) -> Callable[..., Any]:
    if not path.is_file():
        raise Failed(Failure.ENTRY, "the submission has no solution.py")
    spec = importlib.util.spec_from_file_location("solution", path, loader=_CheckedText("solution", str(path)))
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
