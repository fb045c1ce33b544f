"""Reads the ranks' files of the recorded call, as a table and as a timeline. All of it is untrusted."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from evaluator.arena.recording import FILE_BYTES, MOST_LANES, MOST_NAMES, MOST_ROWS, MOST_SPANS
from evaluator.contract import (
    CallTimeline,
    ContractError,
    Message,
    RankTimeline,
    RecordedWork,
    Span,
    WorkKind,
    WorkName,
    WorkTotal,
)
from evaluator.contract.base import Count, Name
from evaluator.host.process import memory_files
from evaluator.host.process.logs import clean

MOST_WORKS = 48
"""How many names go into a report: those that took longest."""

MOST_SHOWN = 1500
"""How many spans of a rank go into a report: the longest."""

_MOST_BYTES = 2**53
"""JSON numbers beyond this are not exact everywhere, and no device has as much memory."""

_Note = Annotated[str, Meta(max_length=200)]
_Dropped = Annotated[int, Meta(ge=0, le=2**32)]
"""What a report joins or adds up of all ranks stays within its own bounds."""


class Row(Message, frozen=True, array_like=True):
    """All work of one name, as `evaluator.arena.recording.Row`."""

    kind: WorkKind
    name: Name
    times: Count
    nanoseconds: Count
    bytes: Count = 0


class Recording(Message, frozen=True, array_like=True):
    """One rank's call, as `evaluator.arena.recording.Recording`."""

    names: Annotated[tuple[WorkName, ...], Meta(max_length=MOST_NAMES)]
    lanes: Annotated[tuple[Name, ...], Meta(max_length=MOST_LANES)]
    spans: Annotated[tuple[Span, ...], Meta(max_length=MOST_SPANS)]
    begin_ns: Count
    end_ns: Count
    uncertainty_ns: Count
    dropped: _Dropped = 0
    opened_ns: Count = 0

    def __post_init__(self) -> None:
        if any(span.name >= len(self.names) or span.lane >= len(self.lanes) for span in self.spans):
            raise ValueError("a span has a name or lane that is not listed")


class RankFile(Message, frozen=True, forbid_unknown_fields=True):
    """What one rank's file holds; the note says what is missing."""

    rows: Annotated[tuple[Row, ...], Meta(max_length=MOST_ROWS)]
    dropped: _Dropped
    recording: Recording | None
    note: _Note


def create() -> int:
    """A memory file for one rank's recording that nobody can resize; returns its descriptor."""
    return memory_files.create("recording", FILE_BYTES)


def read(descriptor: int) -> RankFile:
    """What a rank wrote into its file; a note where it is not what a rank writes."""
    try:
        return RankFile.from_json(os.pread(descriptor, FILE_BYTES, 0).rstrip(b"\0"))
    except (ContractError, UnicodeDecodeError) as error:
        return RankFile(rows=(), dropped=0, recording=None, note=f"a rank left no records: {error}"[:200])


def read_rows(descriptors: Sequence[int], *, size: str) -> RecordedWork:
    """The work in the ranks' files, summed by name; the note says what could not be read."""
    files = [read(descriptor) for descriptor in descriptors]
    found: dict[tuple[WorkKind, str], list[Row]] = {}
    for row in (row for file in files for row in file.rows):
        found.setdefault((row.kind, clean(row.name)), []).append(row)
    works = sorted(
        (_work(kind, name, rows) for (kind, name), rows in found.items()), key=lambda work: work.us, reverse=True
    )
    return RecordedWork(
        size=size,
        works=tuple(works[:MOST_WORKS]),
        dropped=max((file.dropped for file in files), default=0) + max(0, len(works) - MOST_WORKS),
        note="; ".join(dict.fromkeys(clean(file.note) for file in files if file.note)),
    )


def _work(kind: WorkKind, name: str, rows: Sequence[Row]) -> WorkTotal:
    return WorkTotal(
        kind=kind,
        name=name,
        count=max(row.times for row in rows),
        us=max(row.nanoseconds for row in rows) * 1e-3,
        bytes=min(max(row.bytes for row in rows), _MOST_BYTES),
        ranks=len(rows),
    )


@dataclass(frozen=True, kw_only=True)
class Window:
    """Beginning and end of the call in ns of CLOCK_MONOTONIC. Spans outside do not belong to it."""

    opens_ns: int
    closes_ns: int

    def holds(self, start_ns: int, ns: int) -> bool:
        """Whether a span lies inside the window."""
        return self.opens_ns <= start_ns and start_ns + ns <= self.closes_ns


@contextmanager
def window() -> Iterator[Callable[[], Window]]:
    """What runs inside is the call; the yielded function returns its window."""
    opens_ns = time.monotonic_ns()
    yield lambda: Window(opens_ns=opens_ns, closes_ns=time.monotonic_ns())


def read_timeline(descriptors: Sequence[int], *, window: Window) -> CallTimeline:
    """The timeline of every rank; a note says why a rank has none."""
    found = [_recording(read(descriptor), window) for descriptor in descriptors]
    begins = [one.begin_ns for one in found if isinstance(one, Recording)]
    first_ns = min(begins, default=window.opens_ns)
    names: dict[WorkName, int] = {}
    ranks = tuple(
        RankTimeline(rank=rank, note=one) if isinstance(one, str) else _rank(rank, one, window, first_ns, names)
        for rank, one in enumerate(found)
    )
    return CallTimeline(names=tuple(names), ranks=ranks)


def _recording(file: RankFile, window: Window) -> Recording | str:
    found = file.recording
    if found is None:
        return f"the rank left no timeline: {clean(file.note)}"
    if not (window.opens_ns <= found.begin_ns <= found.end_ns <= window.closes_ns):
        return "the rank's call lies outside the host's window"
    return found


def _rank(rank: int, found: Recording, window: Window, first_ns: int, names: dict[WorkName, int]) -> RankTimeline:
    """One rank's spans after `first_ns`, with `names` shared by all."""
    usable = [span for span in found.spans if span.start_ns >= first_ns and window.holds(span.start_ns, span.ns)]
    longest = sorted(usable, key=lambda span: span.ns, reverse=True)[:MOST_SHOWN]
    cleaned = [msgspec.structs.replace(name, name=clean(name.name)) for name in found.names]
    spans = tuple(
        msgspec.structs.replace(
            span,
            name=names.setdefault(cleaned[span.name], len(names)),
            start_ns=span.start_ns - first_ns,
            bytes=min(span.bytes, _MOST_BYTES),
        )
        for span in sorted(longest, key=lambda span: span.start_ns)
    )
    return RankTimeline(
        rank=rank,
        lanes=tuple(clean(lane) for lane in found.lanes),
        spans=spans,
        begin_ns=found.begin_ns - first_ns,
        end_ns=found.end_ns - first_ns,
        uncertainty_ns=min(found.uncertainty_ns, window.closes_ns - window.opens_ns),
        dropped=found.dropped + len(found.spans) - len(spans),
        opened_ns=found.opened_ns - first_ns if window.holds(found.opened_ns, 0) else None,
    )
