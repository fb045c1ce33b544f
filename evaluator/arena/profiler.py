"""Records what runs in one call: kernels, copies, operators of torch.distributed. Self-reported, as all data of ranks.

The profiler is torch's (kineto; CUPTI below it on a GPU). A submission can see that it runs, and forge its records.
"""

import json
import os
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import _disable_profiler, _enable_profiler, _prepare_profiler, _profiler_enabled
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, _ExperimentalConfig
from torch.autograd.profiler import record_function

from evaluator.arena import profile_rows, recorded_spans, trace_events
from evaluator.arena.profile_rows import ROWS_BYTES

_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, struct.error)
"""What reading a trace of another form than expected may raise."""

_MARKS = 4
"""How often the host's clock is read beside an annotation, before and after the call."""


def recorded(
    function: Callable[..., Any], *, descriptor: int, device: torch.device, line_up: Callable[[], None]
) -> Callable[..., Any]:
    """Wraps `function`: a call writes to the file `descriptor` what ran until its device was idle again.

    Where the profiler cannot be started, the function still runs, and the file says why. `line_up` waits for the other
    ranks: starting takes a different time on each, which would show in kernels that wait for peers.
    """

    def call(*arguments: Any) -> Any:
        try:
            _start(device)
        except RuntimeError as error:
            _write(descriptor, note=f"the profiler did not start: {error}")
            line_up()
            return function(*arguments)
        # The first annotation of a process takes milliseconds.
        marks = [_mark() for _ in range(1 + _MARKS)]
        line_up()
        with record_function(trace_events.CALL):
            value = function(*arguments)
            if device.type == "cuda":
                torch.cuda.synchronize()
        marks += [_mark() for _ in range(_MARKS)]
        _end(descriptor, marks)
        return value

    return call


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
        _write(descriptor, note="the submission used the profiler itself; a process has only one")
        return
    with tempfile.TemporaryDirectory(prefix="recording-") as folder:
        path = Path(folder, "trace.json")
        _disable_profiler().save(str(path))
        try:
            events = json.loads(path.read_bytes())["traceEvents"]
            rows = trace_events.rows(events)
        except (OSError, *_UNREADABLE) as error:
            _write(descriptor, note=f"the profiler's trace cannot be read: {error}")
            return
    try:
        spans = recorded_spans.pack(trace_events.recording(events, marks=marks))
    except _UNREADABLE as error:
        _write(descriptor, rows=rows, note=f"no timeline: the profiler's trace has an unexpected form: {error}")
        return
    _write(descriptor, rows=rows)
    os.pwrite(descriptor, spans, ROWS_BYTES)


def _write(descriptor: int, *, rows: list[profile_rows.Row] | None = None, note: str = "") -> None:
    os.pwrite(descriptor, profile_rows.pack(rows or [], note=note), 0)
