"""What a rank reports of a recorded call, as JSON in a file of fixed size: what ran how often, and what ran when.

Standard library only: the host knows these bounds too. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of
a machine share, so that all ranks use one clock.
"""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

FILE_BYTES = 1 << 20
MOST_ROWS, MOST_SPANS, MOST_NAMES, MOST_LANES = 340, 3000, 400, 24
_NAME_CHARACTERS, _LANE_CHARACTERS, _NOTE_CHARACTERS = 160, 48, 180


class Kind(StrEnum):
    """Work on the device; a collective as torch.distributed calls it; what the host does."""

    KERNEL = "kernel"
    COPY = "copy"
    FILL = "fill"
    COLLECTIVE = "collective"
    LAUNCH = "launch"
    WAIT = "wait"
    OPERATOR = "operator"


class Row(NamedTuple):
    """All work of one name in the call: how often, nanoseconds in all, bytes copied or filled in all (0: unknown)."""

    kind: Kind
    name: str
    times: int
    nanoseconds: int
    bytes: int = 0


class WorkName(NamedTuple):
    """A name that spans share, and how a kernel was launched: blocks, threads, and per thread or block what it uses.

    `registers` is per thread, `shared_bytes` per block; `occupancy` is the profiler's estimate. `source` and `target`
    are the devices of a copy between two.
    """

    name: str
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    registers: int = 0
    shared_bytes: int = 0
    occupancy: float | None = None
    source: int | None = None
    target: int | None = None


class Span(NamedTuple):
    """From `start_ns` for `ns`, on the lane and with the name of these numbers; `flow` links a launch to its work."""

    kind: Kind
    lane: int
    name: int
    start_ns: int
    ns: int
    bytes: int = 0
    flow: int = 0


class Recording(NamedTuple):
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


def packed(rows: Sequence[Row] = (), recording: Recording | None = None, *, note: str = "") -> bytes:
    """The file's content: the rows and spans that took longest, as many as fit; `note` says what is missing."""
    kept = sorted(rows, key=lambda row: row.nanoseconds, reverse=True)[:MOST_ROWS]
    content = {
        "rows": [row._replace(name=row.name[:_NAME_CHARACTERS]) for row in kept],
        "dropped": len(rows) - len(kept),
        "recording": None if recording is None else _bounded(recording),
        "note": note[:_NOTE_CHARACTERS],
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _bounded(recording: Recording) -> Recording:
    """The same with only the longest spans that fit, and the names and lanes that they use."""
    lanes = tuple(lane[:_LANE_CHARACTERS] for lane in recording.lanes[:MOST_LANES])
    kept: list[Span] = []
    names: dict[int, int] = {}
    for span in sorted(recording.spans, key=lambda span: span.ns, reverse=True):
        is_new = span.name not in names
        if len(kept) == MOST_SPANS or span.lane >= len(lanes) or (is_new and len(names) == MOST_NAMES):
            continue
        kept.append(span._replace(name=names.setdefault(span.name, len(names)), start_ns=max(0, span.start_ns)))
    return recording._replace(
        names=tuple(
            recording.names[number]._replace(name=recording.names[number].name[:_NAME_CHARACTERS]) for number in names
        ),
        lanes=lanes,
        spans=tuple(sorted(kept, key=lambda span: span.start_ns)),
        begin_ns=max(0, recording.begin_ns),
        end_ns=max(0, recording.end_ns),
        opened_ns=max(0, recording.opened_ns),
        dropped=recording.dropped + len(recording.spans) - len(kept),
    )
