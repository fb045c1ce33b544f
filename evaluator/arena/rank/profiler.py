"""Recording what runs in one call: kernels, copies, operators of torch.distributed. A claim, as all that ranks say.

The recorder is torch's (kineto; CUPTI below it on a GPU). A submission can see that it runs, and forge what it says.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import _disable_profiler, _enable_profiler, _prepare_profiler, _profiler_enabled
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, _ExperimentalConfig

from evaluator.arena.profile_rows import Row, RowKind, pack

_OPERATORS = ("c10d::", "_c10d_functional::", "symm_mem::", "gloo:", "nccl:")
_ON_DEVICE = {"kernel": RowKind.KERNEL, "gpu_memcpy": RowKind.COPY, "gpu_memset": RowKind.FILL}
_ON_HOST = ("cpu_op", "user_annotation")


def recorded(
    function: Callable[..., Any], *, descriptor: int, device: torch.device, line_up: Callable[[], None]
) -> Callable[..., Any]:
    """`function`, which then leaves in the file `descriptor` what ran until its device was idle again.

    Where the recorder cannot be started the function runs all the same, and the file says why. `line_up` waits for
    the other ranks: starting takes each another time, and kernels that wait for peers would show it.
    """

    def call(*arguments: Any) -> Any:
        try:
            _start(device)
        except RuntimeError as error:
            os.pwrite(descriptor, pack([], note=f"the profiler did not start: {error}"), 0)
            line_up()
            return function(*arguments)
        line_up()
        value = function(*arguments)
        if device.type == "cuda":
            torch.cuda.synchronize()
        os.pwrite(descriptor, _end(), 0)
        return value

    return call


def _start(device: torch.device) -> None:
    config = ProfilerConfig(ProfilerState.KINETO, False, False, False, False, False, _ExperimentalConfig())
    activities = {ProfilerActivity.CPU}
    if device.type == "cuda":
        activities.add(ProfilerActivity.CUDA)
    _prepare_profiler(config, activities)
    _enable_profiler(config, activities)


def _end() -> bytes:
    """The file's content. The trace tells kinds and bytes, which kineto's events in memory do not in every torch."""
    if not _profiler_enabled():
        return pack([], note="the submission used the profiler itself, which there is once in a process")
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        path = Path(folder, "trace.json")
        _disable_profiler().save(str(path))
        try:
            return pack(rows(json.loads(path.read_bytes())["traceEvents"]))
        except (OSError, ValueError, LookupError, TypeError) as error:
            return pack([], note=f"the profiler's trace cannot be read: {error}")


def rows(events: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The events of a trace that matter here, those of one name together."""
    found: dict[tuple[RowKind, str], list[float]] = {}
    for event in events:
        kind = _kind(event)
        if kind is not None:
            total = found.setdefault((kind, event["name"]), [0, 0.0, 0])
            total[0] += 1
            total[1] += event["dur"] * 1000
            total[2] += event.get("args", {}).get("bytes", 0) if kind is not RowKind.OPERATOR else 0
    return [
        Row(kind=kind, name=name, count=int(count), nanoseconds=round(nanoseconds), bytes=int(size))
        for (kind, name), (count, nanoseconds, size) in found.items()
    ]


def _kind(event: Mapping[str, Any]) -> RowKind | None:
    category = event.get("cat")
    if category in _ON_HOST and event["name"].startswith(_OPERATORS):
        return RowKind.OPERATOR
    return _ON_DEVICE.get(category or "")
