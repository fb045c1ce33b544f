"""Events of the profiler's trace as rows (what ran how often) and as spans (what ran when)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluator.arena.recording import Kind, Recording, Row, Span, WorkName

CALL, MARK = "pkb:call", "pkb:mark"
"""Names of our own annotations: around the call, and where the host's clock was read."""
GATE = "pkb_gate"
"""The kernel behind which the work of a call is queued."""

_OPERATORS = ("c10d::", "_c10d_functional::", "symm_mem::", "gloo:", "nccl:")
_ON_DEVICE = {"kernel": Kind.KERNEL, "gpu_memcpy": Kind.COPY, "gpu_memset": Kind.FILL}
_ON_HOST = ("cpu_op", "user_annotation")
_DRIVER = ("cuda_runtime", "cuda_driver")
_STARTS_WORK = ("Launch", "Memcpy", "Memset")

Event = Mapping[str, Any]


def rows(events: Sequence[Event]) -> list[Row]:
    """The relevant events of a trace, grouped by name."""
    found: dict[tuple[Kind, str], list[float]] = {}
    for event in _without_the_judges(events):
        kind = _row_kind(event)
        if kind is not None:
            total = found.setdefault((kind, event["name"]), [0, 0.0, 0])
            total[0] += 1
            total[1] += event["dur"] * 1000
            total[2] += event.get("args", {}).get("bytes", 0) if kind is not Kind.OPERATOR else 0
    return [
        Row(kind=kind, name=name, times=int(count), nanoseconds=round(nanoseconds), bytes=int(size))
        for (kind, name), (count, nanoseconds, size) in found.items()
    ]


def _row_kind(event: Event) -> Kind | None:
    category = event.get("cat")
    if category in _ON_HOST and event["name"].startswith(_OPERATORS):
        return Kind.OPERATOR
    return _ON_DEVICE.get(category or "")


def recording(events: Sequence[Event], *, marks: Sequence[tuple[int, int]]) -> Recording:
    """What ran in the call, on CLOCK_MONOTONIC.

    Args:
        events: of the trace; times in microseconds of the profiler's clock.
        marks: when the host's clock read what (ns), just before and just after each annotation `MARK` began.

    Returns:
        The recording. Its `end_ns` is when the call returned or the device was idle, whichever came later.

    Raises:
        ValueError: the trace lacks the call or a mark.
    """
    seen = [event for event in events if event.get("ph") == "X"]
    offset_ns, uncertainty_ns = _offset([event for event in seen if event["name"] == MARK], marks)
    call = _call(seen)
    if call is None:
        raise ValueError("it does not show where the call began")
    begin_ns = round(call["ts"] * 1000) - offset_ns
    lanes, names, spans = _Numbers(), _Numbers(), []
    # Streams come first, in their order, then the thread of the call, then others.
    inside = sorted(_inside(_without_the_judges(seen), call), key=lambda found: _lane_order(found[1], call))
    threads = _Numbers()
    threads.of(call["tid"])
    for kind, event in inside:
        work = _work_name(kind, event)
        spans.append(
            Span(
                kind=kind,
                lane=lanes.of(_lane(event, threads)),
                name=names.of(work),
                start_ns=round(event["ts"] * 1000) - offset_ns,
                ns=max(0, round(event["dur"] * 1000)),
                bytes=int(event.get("args", {}).get("bytes", 0)) if kind in (Kind.COPY, Kind.FILL) else 0,
                flow=int(event.get("args", {}).get("correlation", 0)),
            )
        )
    gates = [event for event in seen if event.get("cat") == "kernel" and event["name"].startswith(GATE)]
    return Recording(
        names=tuple(names.values),
        lanes=tuple(lanes.values),
        spans=tuple(spans),
        begin_ns=begin_ns,
        end_ns=max(begin_ns + round(call["dur"] * 1000), *(span.start_ns + span.ns for span in spans), 0),
        uncertainty_ns=uncertainty_ns,
        opened_ns=max((round(_end_us(gate) * 1000) - offset_ns for gate in gates), default=0),
    )


def _without_the_judges(events: Sequence[Event]) -> list[Event]:
    """All events but the work that the judge queues around the call: what its thread starts before and after."""
    call = _call(events)
    if call is None:
        return list(events)
    around = {
        event["args"]["correlation"]
        for event in events
        if event.get("cat") in _DRIVER
        and event["tid"] == call["tid"]
        and not call["ts"] <= event["ts"] <= _end_us(call)
        and "correlation" in event.get("args", {})
    }
    return [
        event for event in events if not (_is_on_device(event) and event.get("args", {}).get("correlation") in around)
    ]


def _call(events: Iterable[Event]) -> Event | None:
    """Our annotation around the call."""
    return next((event for event in events if event["name"] == CALL and event.get("cat") == "user_annotation"), None)


def _end_us(event: Event) -> float:
    end: float = event["ts"] + event["dur"]
    return end


class _Numbers:
    """Numbers values in the order of first occurrence."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        """The number of `value`."""
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def values(self) -> list[Any]:
        """All values by their numbers."""
        return list(self._numbers)


def _offset(events: Sequence[Event], marks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The profiler's clock less CLOCK_MONOTONIC in ns, and by how much that may be wrong.

    Every mark bounds it on both sides; where no offset fits all of them, one of the clocks drifted by as much.
    """
    if not marks or len(events) != len(marks):
        raise ValueError(f"it shows {len(events)} of our {len(marks)} marks")
    times = sorted(round(event["ts"] * 1000) for event in events)
    low = max(time - after for time, (_, after) in zip(times, marks, strict=True))
    high = min(time - before for time, (before, _) in zip(times, marks, strict=True))
    return (low + high) // 2, (abs(high - low) + 1) // 2


def _inside(events: Sequence[Event], call: Event) -> Iterable[tuple[Kind, Event]]:
    """Work of the call: all on the device since it began, and what the host did until it returned."""
    end = _end_us(call)
    covered: dict[Any, float] = {}
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        kind = _span_kind(event)
        if kind is None or event["ts"] < call["ts"] or (event["ts"] > end and not _is_on_device(event)):
            continue
        if kind is Kind.OPERATOR:
            # An operator calls others; the outermost stands for them.
            if event["ts"] < covered.get(event["tid"], 0.0):
                continue
            covered[event["tid"]] = event["ts"] + event["dur"]
        yield kind, event


def _span_kind(event: Event) -> Kind | None:
    category, name = event.get("cat", ""), event["name"]
    if category in _ON_DEVICE:
        return _ON_DEVICE[category]
    if category in _ON_HOST and name.startswith(_OPERATORS):
        return Kind.COLLECTIVE
    if category == "cpu_op":
        return Kind.OPERATOR
    if category in _DRIVER:
        return _driver_kind(name)
    return None


def _driver_kind(name: str) -> Kind | None:
    """The kind of a driver call: it waits or starts work; None for others."""
    if "Synchronize" in name or name in ("cudaMemcpy", "cudaFree", "cudaMalloc", "cuMemAlloc", "cuMemFree"):
        return Kind.WAIT
    return Kind.LAUNCH if any(word in name for word in _STARTS_WORK) else None


def _is_on_device(event: Event) -> bool:
    return event.get("cat") in _ON_DEVICE


def _lane(event: Event, threads: _Numbers) -> str:
    if _is_on_device(event):
        return f"stream {event.get('args', {}).get('stream', event['tid'])}"
    number = threads.of(event["tid"])
    return f"host thread {number + 1}" if number else "host"


def _lane_order(event: Event, call: Event) -> tuple[int, str, float]:
    order = 0 if _is_on_device(event) else 1 if event["tid"] == call["tid"] else 2
    return order, f"{event['tid']:>20}", event["ts"]


def _work_name(kind: Kind, event: Event) -> WorkName:
    launched = event.get("args", {})
    if kind is Kind.COPY:
        return WorkName(event["name"], source=_device(launched, "fromDevice"), target=_device(launched, "toDevice"))
    if kind is not Kind.KERNEL:
        return WorkName(name=event["name"])
    occupancy = launched.get("est. achieved occupancy %")
    return WorkName(
        name=event["name"],
        grid=_three(launched.get("grid")),
        block=_three(launched.get("block")),
        registers=int(launched.get("registers per thread", 0)),
        shared_bytes=int(launched.get("shared memory", 0)),
        occupancy=None if occupancy is None else min(1.0, max(0.0, round(occupancy) / 100)),
    )


def _device(launched: Mapping[str, Any], end: str) -> int | None:
    number = int(launched.get(end, -1))
    return number if number >= 0 else None


def _three(counts: Any) -> tuple[int, int, int]:
    if not isinstance(counts, list) or len(counts) != 3:
        return 0, 0, 0
    return int(counts[0]), int(counts[1]), int(counts[2])
