"""Recording what runs in one call: kernels, copies, operators of torch.distributed. A claim, as all that ranks say.

The recorder is torch's (kineto; CUPTI below it on a GPU). A submission can see that it runs, and forge what it says.
"""

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._C._autograd import (
    DeviceType,
    _disable_profiler,
    _enable_profiler,
    _prepare_profiler,
    _profiler_enabled,
)
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, _ExperimentalConfig

from evaluator.arena.audit_records import Row, RowKind, pack

_OPERATORS = ("c10d::", "_c10d_functional::", "symm_mem::", "gloo:", "nccl:")
_BYTES = re.compile(r'"bytes": (\d+)')
_COPY, _FILL = "Memcpy", "Memset"


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
        if _profiler_enabled():
            content = pack(rows(_disable_profiler().events()))
        else:
            content = pack([], note="the submission used the profiler itself, which there is once in a process")
        os.pwrite(descriptor, content, 0)
        return value

    return call


def _start(device: torch.device) -> None:
    config = ProfilerConfig(ProfilerState.KINETO, False, False, False, False, False, _ExperimentalConfig())
    activities = {ProfilerActivity.CPU}
    if device.type == "cuda":
        activities.add(ProfilerActivity.CUDA)
    _prepare_profiler(config, activities)
    _enable_profiler(config, activities)


def rows(events: Iterable[Any]) -> list[Row]:
    """The events of kineto that matter here, those of one name together."""
    found: dict[tuple[RowKind, str], list[int]] = {}
    for event in events:
        kind = _kind(event)
        if kind is not None:
            total = found.setdefault((kind, event.name()), [0, 0, 0])
            total[0] += 1
            total[1] += event.duration_ns()
            total[2] += _bytes(event) if kind in (RowKind.COPY, RowKind.FILL) else 0
    return [
        Row(kind=kind, name=name, count=count, nanoseconds=nanoseconds, bytes=copied)
        for (kind, name), (count, nanoseconds, copied) in found.items()
    ]


def _kind(event: Any) -> RowKind | None:
    name = event.name()
    if event.device_type() == DeviceType.CPU:
        return RowKind.OPERATOR if name.startswith(_OPERATORS) else None
    if name.startswith(_OPERATORS):  # an annotation of what the kernels below it are for
        return None
    if name.startswith(_COPY):
        return RowKind.COPY
    return RowKind.FILL if name.startswith(_FILL) else RowKind.KERNEL


def _bytes(event: Any) -> int:
    told = getattr(event, "metadata_json", None)
    found = _BYTES.search(told()) if told is not None else None
    return int(found[1]) if found else 0
