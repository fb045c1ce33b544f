"""The reports on a node's disk that the site has not received yet. They survive the end of the process."""

import hashlib
import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from evaluator.contract import Upload

logger = logging.getLogger(__name__)

_RECEIPT_S = 30.0
"""How long a receipt may take before a report is sent again; twice as long after each time."""
_MOST_AGAIN = 4
"""How often a report is sent again: the copies may all wait for a site that is away."""


class Spool:
    """Reports in `folder`: SHA256.json waits to be sent, and becomes SHA256.sent once the broker has accepted it.

    SHA256.upload beside it is the permission to upload it, and SHA256.refused is set aside for the operator.
    One thread writes and forgets while another sends: a file may go at any moment.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._evaluations: dict[str, str] = {}
        self._again: dict[str, int] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def evaluations(self) -> tuple[str, ...]:
        """The evaluations whose reports this process has written and the site has not received yet."""
        return tuple(self._evaluations.copy().values())

    def write(self, evaluation_id: str, text: str, upload: Upload | None) -> None:
        """Keep the text of a report, and the permission to upload it; when this returns, it is on the disk.

        Raises:
            OSError: the folder does not take it. Nothing of it is left there.
        """
        path = self._folder / f"{_digest_of(text)}.json"
        # Before it can be sent: its receipt takes it away again.
        self._evaluations[path.stem] = evaluation_id
        try:
            _write(path, text, upload)
        except OSError:
            del self._evaluations[path.stem]
            # Of a full disk, half a report takes what space there is.
            for part in (".upload", ".draft"):
                with suppress(OSError):
                    path.with_suffix(part).unlink()
            raise

    def unsent(self) -> list[Path]:
        """The reports that wait to be sent, the oldest first."""
        return sorted(self._folder.glob("*.json"), key=lambda path: _written_at(path) or 0.0)

    def unsent_since(self) -> list[float]:
        """When each report that is not sent yet was written, in seconds since the epoch."""
        return [at for path in self._folder.glob("*.json") if (at := _written_at(path)) is not None]

    def awaits_receipts(self) -> bool:
        """Whether a report was sent whose receipt has not come."""
        return any(self._folder.glob("*.sent"))

    def refused(self) -> int:
        """How many reports are set aside."""
        return sum(1 for _ in self._folder.glob("*.refused"))

    def read(self, path: Path) -> tuple[str, str]:
        """The text of a report, and its SHA-256.

        Raises:
            OSError: it cannot be read now.
            ValueError: it is damaged.
        """
        text = path.read_text(encoding="utf-8")
        digest = _digest_of(text)
        if len(path.stem) == len(digest) and digest != path.stem:  # an earlier version gave shorter names
            raise ValueError(f"{path} has not the SHA-256 of its name")
        return text, digest

    def keep_for_receipt(self, path: Path, digest: str) -> None:
        """Put a report that was sent aside until its receipt comes, under the name by which that asks for it."""
        kept = self._folder / f"{digest}.sent"
        if path.stem != digest:  # it has a name of an earlier version
            with suppress(FileNotFoundError):
                path.with_suffix(".upload").rename(kept.with_suffix(".upload"))
        with suppress(FileNotFoundError):  # the receipt was faster
            os.utime(path)
            path.rename(kept)

    def take_back(self) -> None:
        """Have the reports sent again that were sent some time ago and not received."""
        for path in self._folder.glob("*.sent"):
            times, sent_at = self._again.get(path.stem, 0), _written_at(path)
            if sent_at is None or time.time() - sent_at < _RECEIPT_S * 2**times:
                continue
            if times == _MOST_AGAIN:
                logger.warning("the site never said that it has the report %s", path)
                self._remove(path)
                continue
            logger.info("no receipt for the report %s: it is sent again", path)
            self._again[path.stem] = times + 1
            with suppress(FileNotFoundError):  # its receipt has just come
                path.rename(path.with_suffix(".json"))

    def forget(self, digest: str) -> None:
        """Remove the report that the site has received."""
        # In this order: the other thread makes the one into the other at this moment, where its receipt was fast.
        for suffix in (".json", ".sent"):
            self._remove(self._folder / f"{digest}{suffix}")

    def set_aside(self, path: Path) -> None:
        """Keep a report for the operator; it is not sent any more."""
        path.rename(path.with_suffix(".refused"))
        path.with_suffix(".upload").unlink(missing_ok=True)
        self._evaluations.pop(path.stem, None)

    def _remove(self, path: Path) -> None:
        """Remove a report for good, if it is there."""
        path.unlink(missing_ok=True)
        path.with_suffix(".upload").unlink(missing_ok=True)
        self._evaluations.pop(path.stem, None)
        self._again.pop(path.stem, None)


def _digest_of(text: str) -> str:
    """The name of a report with this text, in the folder and in its receipt."""
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, text: str, upload: Upload | None) -> None:
    if upload is not None:
        # Before the report, which is looked for.
        path.with_suffix(".upload").write_text(upload.to_json(), encoding="utf-8")
    draft = path.with_suffix(".draft")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def _written_at(path: Path) -> float | None:
    """None where it was sent at this moment."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
