"""The reports on a node's disk that the site has not received yet. They survive the end of the process."""

import hashlib
import logging
import os
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)


class Spool:
    """Reports in `folder`: SHA256.json waits for the site's receipt.

    SHA256.refused was refused and is kept for the operator; SHA256.reason beside it says why.
    One thread writes while another sends and removes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._evaluations: dict[str, str] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def evaluations(self) -> tuple[str, ...]:
        """The evaluations whose reports this process has written and the site has not received yet."""
        return tuple(self._evaluations.copy().values())

    def write(self, evaluation_id: str, text: str) -> None:
        """Keep the text of a report; when this returns, it is on the disk.

        Raises:
            OSError: the folder does not take it. Nothing of it is left there.
        """
        path = self._folder / f"{_digest_of(text)}.json"
        # Before it can be sent: its receipt takes it away again.
        self._evaluations[path.stem] = evaluation_id
        try:
            _write(path, text)
        except OSError:
            del self._evaluations[path.stem]
            # Of a full disk, half a report takes what space there is.
            with suppress(OSError):
                path.with_suffix(".draft").unlink()
            raise

    def waiting(self) -> list[Path]:
        """The reports that wait for a receipt, the oldest first."""
        return sorted(self._folder.glob("*.json"), key=_written_at)

    def waiting_since(self) -> list[float]:
        """When each report without a receipt was written, in seconds since the epoch."""
        return [at for path in self._folder.glob("*.json") if (at := _written_at(path))]

    def read(self, path: Path) -> str:
        """The text of a report.

        Raises:
            OSError: it cannot be read now.
            ValueError: it is damaged.
        """
        text = path.read_text(encoding="utf-8")
        if _digest_of(text) != path.stem:
            raise ValueError(f"{path} has not the SHA-256 of its name")
        return text

    def remove(self, path: Path) -> None:
        """Remove the report that the site has received."""
        self._evaluations.pop(path.stem, None)
        path.unlink(missing_ok=True)

    def set_aside(self, path: Path, reason: str) -> None:
        """Keep a refused report for the operator, and say why; it is not sent any more."""
        path.with_suffix(".reason").write_text(reason, encoding="utf-8")
        self._evaluations.pop(path.stem, None)
        path.rename(path.with_suffix(".refused"))


def refusals(folder: Path, *, most: int = 1000) -> list[str]:
    """Why each report in `folder` that is kept for the operator was refused, the newest last, so many at most."""
    kept = sorted(folder.glob("*.refused"), key=_written_at)
    return [f"{path}: {_reason(path)}" for path in kept[-most:]]


def _written_at(path: Path) -> float:
    """0 for a file that the operator has just removed."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _reason(path: Path) -> str:
    try:
        return path.with_suffix(".reason").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        return f"the reason cannot be read: {error}"


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
