"""The spans of a recorded call, a part of its file: what ran when, on which stream or thread of one rank.

Standard library only: the host reads these too. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a
machine share, so that all ranks use one clock.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from evaluator.arena.profile_rows import ROWS_BYTES


class SpanKind(IntEnum):
    """What a span is: work on the device; a collective as torch.distributed calls it; what the host does."""

    KERNEL = 1
    COPY = 2
    FILL = 3
    COLLECTIVE = 4
    LAUNCH = 5
    WAIT = 6
    OPERATOR = 7


@dataclass(frozen=True, kw_only=True)
class WorkName:
    """A name that spans share, and how a kernel was launched: blocks, threads, and per thread or block what it uses.

    `registers` is per thread, `shared_bytes` per block; `occupancy_percent` is the profiler's estimate, -1 without one.
    `source` and `target` are the devices of a copy between two, -1 where the profiler names none.
    """

    name: str
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    registers: int = 0
    shared_bytes: int = 0
    occupancy_percent: int = -1
    source: int = -1
    target: int = -1


@dataclass(frozen=True, kw_only=True)
class Span:
    """From `start_ns` for `ns`, on the lane and with the name of these numbers; `flow` links a launch to its work."""

    kind: SpanKind
    lane: int
    name: int
    start_ns: int
    ns: int
    bytes: int = 0
    flow: int = 0


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One rank's call from `begin_ns` to `end_ns`; its offset on the clock is known to within `uncertainty_ns`.

    `opened_ns` is when the gate opened by the device's clock, 0 where there was none.
    """

    names: tuple[WorkName, ...]
    lanes: tuple[str, ...]
    spans: tuple[Span, ...]
    begin_ns: int
    end_ns: int
    uncertainty_ns: int
    dropped: int = 0
    opened_ns: int = 0


class RecordingError(ValueError):
    """The shim did not write this file."""


MOST_SPANS, MOST_NAMES, MOST_LANES = 3000, 400, 24

_MAGIC = b"PKBs"
_HEAD = struct.Struct("<4sIIIIQQQQ")
_NAME = struct.Struct("<160s3I3IIIiii")
_LANE = struct.Struct("<48s")
_SPAN = struct.Struct("<BBHIQQQ")
SPANS_BYTES = _HEAD.size + MOST_NAMES * _NAME.size + MOST_LANES * _LANE.size + MOST_SPANS * _SPAN.size
"""Size of the part that holds spans, about 200 KiB."""

RECORDING_BYTES = ROWS_BYTES + SPANS_BYTES
"""Size of the file that takes a recording: the rows of `profile_rows`, then this part."""

_U32, _U64 = 2**32 - 1, 2**64 - 1


def bounded(recording: Recording) -> Recording:
    """The same with only the longest spans that fit, and the names and lanes that they use."""
    lanes = recording.lanes[:MOST_LANES]
    usable = [span for span in recording.spans if span.lane < len(lanes)]
    kept: list[Span] = []
    names: dict[int, int] = {}
    for span in sorted(usable, key=lambda span: span.ns, reverse=True):
        if len(kept) == MOST_SPANS:
            break
        if span.name not in names and len(names) == MOST_NAMES:
            continue
        kept.append(
            Span(
                kind=span.kind,
                lane=span.lane,
                name=names.setdefault(span.name, len(names)),
                start_ns=span.start_ns,
                ns=span.ns,
                bytes=span.bytes,
                flow=span.flow,
            )
        )
    return Recording(
        names=tuple(recording.names[number] for number in names),
        lanes=lanes,
        spans=tuple(sorted(kept, key=lambda span: span.start_ns)),
        begin_ns=recording.begin_ns,
        end_ns=recording.end_ns,
        uncertainty_ns=recording.uncertainty_ns,
        dropped=recording.dropped + len(recording.spans) - len(kept),
        opened_ns=recording.opened_ns,
    )


def pack(recording: Recording) -> bytes:
    """The part's beginning; spans that do not fit are counted and left out, the shortest first."""
    kept = bounded(recording)
    parts = [
        _HEAD.pack(
            _MAGIC,
            len(kept.names),
            len(kept.lanes),
            len(kept.spans),
            min(kept.dropped, _U32),
            max(0, kept.begin_ns),
            max(0, kept.end_ns),
            min(max(0, kept.uncertainty_ns), _U64),
            min(max(0, kept.opened_ns), _U64),
        )
    ]
    parts += [
        _NAME.pack(
            _encoded(work.name, 160),
            *(min(count, _U32) for count in (*work.grid, *work.block)),
            min(work.registers, _U32),
            min(work.shared_bytes, _U32),
            work.occupancy_percent,
            work.source,
            work.target,
        )
        for work in kept.names
    ]
    parts += [_LANE.pack(_encoded(lane, 48)) for lane in kept.lanes]
    parts += [
        _SPAN.pack(
            span.kind, span.lane, span.name, span.flow & _U32, max(0, span.start_ns), span.ns, min(span.bytes, _U64)
        )
        for span in kept.spans
    ]
    return b"".join(parts)


def unpack(content: bytes) -> Recording:
    """What a file holds.

    Raises:
        RecordingError: anything but a file that `pack` could have made.
    """
    if len(content) < _HEAD.size:
        raise RecordingError(f"the file has {len(content)} bytes, less than its head")
    magic, names, lanes, spans, dropped, begin_ns, end_ns, uncertainty_ns, opened_ns = _HEAD.unpack_from(content)
    if magic != _MAGIC:
        raise RecordingError("the file does not start with its magic number")
    if names > MOST_NAMES or lanes > MOST_LANES or spans > MOST_SPANS:
        raise RecordingError(f"the file announces {names} names, {lanes} lanes and {spans} spans, more than it may")
    size = _HEAD.size + names * _NAME.size + lanes * _LANE.size + spans * _SPAN.size
    if len(content) < size:
        raise RecordingError(f"the file has {len(content)} bytes and announces {size}")
    at = _HEAD.size
    read_names = tuple(_name(values) for values in _NAME.iter_unpack(content[at : at + names * _NAME.size]))
    at += names * _NAME.size
    read_lanes = tuple(_decoded(raw) for (raw,) in _LANE.iter_unpack(content[at : at + lanes * _LANE.size]))
    at += lanes * _LANE.size
    return Recording(
        names=read_names,
        lanes=read_lanes,
        spans=tuple(
            _span(values, names=names, lanes=lanes)
            for values in _SPAN.iter_unpack(content[at : at + spans * _SPAN.size])
        ),
        begin_ns=begin_ns,
        end_ns=end_ns,
        uncertainty_ns=uncertainty_ns,
        dropped=dropped,
        opened_ns=opened_ns,
    )


def _name(values: tuple[Any, ...]) -> WorkName:
    raw, *counts = values
    registers, shared_bytes, occupancy_percent, source, target = counts[6:]
    return WorkName(
        name=_decoded(raw),
        grid=(counts[0], counts[1], counts[2]),
        block=(counts[3], counts[4], counts[5]),
        registers=registers,
        shared_bytes=shared_bytes,
        occupancy_percent=occupancy_percent,
        source=source,
        target=target,
    )


def _span(values: tuple[int, int, int, int, int, int, int], *, names: int, lanes: int) -> Span:
    kind, lane, name, flow, start_ns, ns, size = values
    if name >= names or lane >= lanes:
        raise RecordingError(f"a span has name {name} of {names} and lane {lane} of {lanes}")
    try:
        known = SpanKind(kind)
    except ValueError as error:
        raise RecordingError(f"a span is of the unknown kind {kind}") from error
    return Span(kind=known, lane=lane, name=name, start_ns=start_ns, ns=ns, bytes=size, flow=flow)


def _encoded(text: str, size: int) -> bytes:
    return text.encode("utf-8", "replace")[:size]


def _decoded(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("utf-8", "replace")
