"""Filling a run from files: one streamed request, and a journal next to the file that records what the site has.

Run again after an interruption, only what the site has not confirmed is sent; what it has stored without our hearing
of it, it answers as `repeated`.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from .attempt_files import read_attempts
from .journal import Journal
from .results import LineResult
from .runs import Runs

MOST_BYTES = 200 * 2**20
"""In one request; the site takes 256 MiB."""
_STORED = {"created", "repeated"}
Hears = Callable[[int], None]


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The site's result for one attempt."""

    run: str
    digest: str
    result: LineResult


@dataclass(frozen=True, kw_only=True)
class Uploaded:
    """The result of every attempt of a file, over all calls."""

    results: tuple[LineResult, ...]
    sent: int
    retry_after_s: float | None

    @property
    def counts(self) -> dict[str, int]:
        """Attempts by status; those of an earlier call count as `stored_before`."""
        return dict(Counter(result.status for result in self.results))

    @property
    def refused(self) -> tuple[LineResult, ...]:
        """The attempts that the site refused."""
        return tuple(result for result in self.results if result.status not in _STORED)


def journal_path(path: Path) -> Path:
    """The path of an upload's journal."""
    return path.with_name(f"{path.resolve().name}.pkb-journal")


def upload(
    runs: Runs, run_id: str, path: Path, *, starting: Hears = lambda _bytes: None, moved: Hears = lambda _bytes: None
) -> Uploaded:
    """Send every attempt of `path` that the run does not have yet.

    `starting` gets the number of bytes to send, `moved` the number sent so far.

    Raises:
        UsageError: the file is not one, or another upload of it is under way.
        Refused: the site refused the request as a whole.
        Unreachable: the connection broke for good; the same call goes on from there.
    """
    with Journal[Line](journal_path(path), Line) as journal:
        known = {(line.digest, line.result.key): line.result for line in journal.entries if line.run == run_id}
        results, sent, retry_after_s = [], 0, None
        for batch in _batches(path):
            stored = [known[entry.identity] for entry in batch if _is_stored(known.get(entry.identity))]
            results += [msgspec.structs.replace(result, status="repeated") for result in stored]
            missing = [entry for entry in batch if not _is_stored(known.get(entry.identity))]
            if not missing:
                continue
            answered, retry_after_s = _send(runs, run_id, missing, starting=starting, moved=moved)
            pairs = zip(missing, answered, strict=True)
            journal.extend([Line(run=run_id, digest=entry.digest, result=result) for entry, result in pairs])
            results += answered
            sent += len(missing)
    return Uploaded(results=tuple(results), sent=sent, retry_after_s=retry_after_s)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    key: str
    line: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.line).hexdigest()

    @property
    def identity(self) -> tuple[str, str]:
        return self.digest, self.key


def _is_stored(result: LineResult | None) -> bool:
    return result is not None and result.status in _STORED


def _batches(path: Path) -> Iterator[list[_Entry]]:
    """The attempts as lines, as many together as one request takes."""
    batch: list[_Entry] = []
    size = 0
    for attempt in read_attempts(path):
        entry = _Entry(key=attempt.identity, line=msgspec.json.encode(attempt) + b"\n")
        if batch and size + len(entry.line) > MOST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.line)
    yield batch


def _send(
    runs: Runs, run_id: str, entries: list[_Entry], *, starting: Hears, moved: Hears
) -> tuple[list[LineResult], float | None]:
    length = sum(len(entry.line) for entry in entries)
    starting(length)

    def lines() -> Iterator[bytes]:
        at = 0
        for entry in entries:
            yield entry.line
            at += len(entry.line)
            moved(at)

    answer, retry_after_s = runs.add_lines(run_id, lines, length=length)
    return list(answer.results), retry_after_s
