"""Reads the ranks' files of the recorded call, as a table and as a timeline. All of it is untrusted."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from evaluator.arena import recorded_spans
from evaluator.arena.profile_rows import ROWS_BYTES, Row, RowKind, RowsError, unpack
from evaluator.arena.recorded_spans import RECORDING_BYTES, SPANS_BYTES, Recording, RecordingError
from evaluator.contract import (
    CallTimeline,
    RankTimeline,
    RecordedWork,
    Span,
    SpanKind,
    WorkKind,
    WorkName,
    WorkTotal,
)
from evaluator.host.process.logs import clean

MOST_WORKS = 48
"""How many names go into a report: those that took longest."""

MOST_SPANS = 1500
"""How many spans of a rank go into a report: the longest."""

_SPAN_KINDS = {kind: SpanKind[kind.name] for kind in recorded_spans.SpanKind}
_KINDS = {
    RowKind.KERNEL: WorkKind.KERNEL,
    RowKind.COPY: WorkKind.COPY,
    RowKind.FILL: WorkKind.FILL,
    RowKind.OPERATOR: WorkKind.OPERATOR,
}


def create() -> int:
    """A memory file for one rank's recording that nobody can resize; returns its descriptor."""
    descriptor = os.memfd_create("recording", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, RECORDING_BYTES)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def read_rows(descriptors: Sequence[int], *, size: str) -> RecordedWork:
    """The work in the ranks' files, summed by name; the note says what could not be read."""
    found: dict[tuple[WorkKind, str], list[Row]] = {}
    notes: dict[str, None] = {}
    dropped = 0
    for descriptor in descriptors:
        try:
            rows, cut, note = unpack(os.pread(descriptor, ROWS_BYTES, 0))
        except RowsError as error:
            rows, cut, note = [], 0, f"a rank left no records: {error}"
        dropped = max(dropped, cut)
        if note:
            notes[clean(note)] = None
        for row in rows:
            found.setdefault((_KINDS[row.kind], clean(row.name)), []).append(row)
    works = sorted(
        (_work(kind, name, rows) for (kind, name), rows in found.items()), key=lambda work: work.us, reverse=True
    )
    dropped += max(0, len(works) - MOST_WORKS)
    return RecordedWork(size=size, works=tuple(works[:MOST_WORKS]), dropped=dropped, note="; ".join(notes))


def _work(kind: WorkKind, name: str, rows: Sequence[Row]) -> WorkTotal:
    return WorkTotal(
        kind=kind,
        name=name,
        count=max(row.count for row in rows),
        us=max(row.nanoseconds for row in rows) * 1e-3,
        # A rank writes any 64 bits.
        bytes=min(max(row.bytes for row in rows), 2**53),
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
    read = [_recording(descriptor, window) for descriptor in descriptors]
    begins = [one.begin_ns for one in read if isinstance(one, Recording)]
    first_ns = min(begins, default=window.opens_ns)
    names: dict[WorkName, int] = {}
    ranks = tuple(
        RankTimeline(rank=rank, note=one) if isinstance(one, str) else _rank(rank, one, window, first_ns, names)
        for rank, one in enumerate(read)
    )
    return CallTimeline(names=tuple(names), ranks=ranks)


def _recording(descriptor: int, window: Window) -> Recording | str:
    try:
        found = recorded_spans.unpack(os.pread(descriptor, SPANS_BYTES, ROWS_BYTES))
    except RecordingError as error:
        return f"the rank left no timeline: {error}"
    if not (window.opens_ns <= found.begin_ns <= found.end_ns <= window.closes_ns):
        return "the rank's call lies outside the host's window"
    return found


def _rank(rank: int, found: Recording, window: Window, first_ns: int, names: dict[WorkName, int]) -> RankTimeline:
    """One rank's spans after `first_ns`, with `names` shared by all."""
    usable = [span for span in found.spans if span.start_ns >= first_ns and window.holds(span.start_ns, span.ns)]
    longest = sorted(usable, key=lambda span: span.ns, reverse=True)[:MOST_SPANS]
    spans = tuple(
        Span(
            kind=_SPAN_KINDS[span.kind],
            lane=span.lane,
            name=names.setdefault(_work_name(found.names[span.name]), len(names)),
            start_ns=span.start_ns - first_ns,
            ns=span.ns,
            # JSON numbers beyond this are not exact everywhere, and no device has as much memory.
            bytes=min(span.bytes, 2**53),
            flow=span.flow,
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


def _work_name(found: recorded_spans.WorkName) -> WorkName:
    return WorkName(
        name=clean(found.name),
        grid=found.grid,
        block=found.block,
        registers=found.registers,
        shared_bytes=found.shared_bytes,
        occupancy=found.occupancy_percent / 100 if 0 <= found.occupancy_percent <= 100 else None,
        source=found.source if found.source >= 0 else None,
        target=found.target if found.target >= 0 else None,
    )
