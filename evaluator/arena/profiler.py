"""Records what runs in one call: kernels, copies, operators of torch.distributed. Self-reported, as all data of ranks.

The profiler is torch's (kineto; CUPTI below it on a GPU). A submission can see that it runs, and forge its records.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import _disable_profiler, _enable_profiler, _prepare_profiler, _profiler_enabled
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, _ExperimentalConfig
from torch.autograd.profiler import record_function

from evaluator.arena import trace_events
from evaluator.arena.recording import packed

_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What reading a trace of another form than expected may raise."""

_MARKS = 4
"""How often the host's clock is read beside an annotation, before and after the call."""


class Recorder:
    """Records one call into a file, from before its gate closes until its device is idle.

    Starting takes a second on a GPU. Were it to start inside the call, the gate would open before the program has
    queued anything.
    """

    def __init__(self, descriptor: int, *, device: torch.device) -> None:
        """Start; `descriptor` is closed in the end.

        Where the profiler cannot be started, the call runs without, and the file says why.
        """
        self._descriptor = descriptor
        self._marks: list[tuple[int, int]] = []
        try:
            _start(device)
        except RuntimeError as error:
            os.pwrite(descriptor, packed(note=f"the profiler did not start: {error}"), 0)
            return
        # The first annotation of a process takes milliseconds.
        self._marks = [_mark() for _ in range(1 + _MARKS)]

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps `function`: the recording shows when it is called and when it returns."""

        def annotated(*arguments: Any) -> Any:
            with record_function(trace_events.CALL):
                return function(*arguments)

        return annotated if self._marks else function

    def finish(self) -> None:
        """Write the file, now that the device is idle."""
        if self._marks:
            _end(self._descriptor, self._marks + [_mark() for _ in range(_MARKS)])
        os.close(self._descriptor)


def _mark() -> tuple[int, int]:
    """Annotate this moment; CLOCK_MONOTONIC just before and just after, in ns."""
    before = time.monotonic_ns()
    with record_function(trace_events.MARK):
        after = time.monotonic_ns()
    return before, after


def _start(device: torch.device) -> None:
    config = ProfilerConfig(ProfilerState.KINETO, False, False, False, False, False, _ExperimentalConfig())
    activities = {ProfilerActivity.CPU}
    if device.type == "cuda":
        activities.add(ProfilerActivity.CUDA)
    _prepare_profiler(config, activities)
    _enable_profiler(config, activities)


def _end(descriptor: int, marks: list[tuple[int, int]]) -> None:
    """Write the file. The trace has kinds and bytes, which kineto's events in memory lack in some versions of torch."""
    if not _profiler_enabled():
        os.pwrite(descriptor, packed(note="the submission used the profiler itself; a process has only one"), 0)
        return
    try:
        events = _events()
        rows = trace_events.rows(events)
    except (OSError, RuntimeError, *_UNREADABLE) as error:
        os.pwrite(descriptor, packed(note=f"the profiler's trace cannot be read: {error}"), 0)
        return
    try:
        content = packed(rows, trace_events.recording(events, marks=marks))
    except _UNREADABLE as error:
        content = packed(rows, note=f"no timeline: the profiler's trace has an unexpected form: {error}")
    os.pwrite(descriptor, content, 0)


def _events() -> list[trace_events.Event]:
    """Stop the profiler; the events of its trace."""
    with tempfile.TemporaryDirectory(prefix="recording-") as folder:
        path = Path(folder, "trace.json")
        _disable_profiler().save(str(path))
        events: list[trace_events.Event] = json.loads(path.read_bytes())["traceEvents"]
        return events
