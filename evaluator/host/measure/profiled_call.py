"""The audited call: what its ranks left in their files, as one table. Untrusted throughout."""

import fcntl
import os
from collections.abc import Sequence

from evaluator.arena.profile_rows import AUDIT_BYTES, AuditError, Row, RowKind, unpack
from evaluator.contract import Audit, AuditedWork, WorkKind
from evaluator.host.process.logs import clean

MOST_WORKS = 48
"""So many names go into a report, those that took longest."""

_KINDS = {
    RowKind.KERNEL: WorkKind.KERNEL,
    RowKind.COPY: WorkKind.COPY,
    RowKind.FILL: WorkKind.FILL,
    RowKind.OPERATOR: WorkKind.OPERATOR,
}


def create() -> int:
    """A memory file for one rank's rows that nobody can resize; returns its descriptor."""
    descriptor = os.memfd_create("audit", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, AUDIT_BYTES)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def read(descriptors: Sequence[int], *, size: str) -> Audit:
    """What the ranks' files hold, the same names of all ranks together; the note says what could not be read."""
    found: dict[tuple[WorkKind, str], list[Row]] = {}
    notes: dict[str, None] = {}
    dropped = 0
    for descriptor in descriptors:
        try:
            rows, cut, note = unpack(os.pread(descriptor, AUDIT_BYTES, 0))
        except AuditError as error:
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
    return Audit(size=size, works=tuple(works[:MOST_WORKS]), dropped=dropped, note="; ".join(notes))


def _work(kind: WorkKind, name: str, rows: Sequence[Row]) -> AuditedWork:
    return AuditedWork(
        kind=kind,
        name=name,
        count=max(row.count for row in rows),
        us=max(row.nanoseconds for row in rows) * 1e-3,
        bytes=max(row.bytes for row in rows),
        ranks=len(rows),
    )
