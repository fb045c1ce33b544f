"""The files of public data: made regularly in the dispatcher's process, and served unchanged by web processes.

So an anonymous download costs what reading a file costs, whatever the size of the site, and all files of one version
fit together. The folder `settings.EXPORT_DIR` has to be the same for dispatchers and web processes.
"""

import fcntl
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

import msgspec
from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone

from portal.core.errors import Refusal
from portal.exports.tables import TABLES, schema
from portal.tabular.tables import MEDIA_TYPES, written
from problems import registry
from problems.spec.schema import Problem

DATASET = "pkb-dataset.zip"
EVERY = timedelta(minutes=10)
"""The age at which the files are made again; if making them takes long, 20 times as long as it takes."""
FIRST_AFTER_S = 20.0
"""How long a process that has just started leaves the machine to the others that start with it."""
LOOK_EVERY_S = 5.0
AGAIN_AFTER_S = 60.0
"""How long to wait after the files could not be made."""
_SHARE = 20
_NEWEST = "newest.json"
_FACTS = ("number", "title", "summary", "signature", "parallelism", "communication", "block", "stage", "domain")
_log = logging.getLogger(__name__)


class ExportVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of all files, as its note has it: the name of its folder, its time, and how long making it took."""

    name: str
    made_at: datetime
    took_s: float

    @property
    def folder(self) -> Path:
        return Path(settings.EXPORT_DIR) / self.name

    @property
    def due_at(self) -> datetime:
        return self.made_at + max(EVERY, timedelta(seconds=self.took_s * _SHARE))


def newest() -> ExportVersion | None:
    """The last version that was finished; None as well where its note cannot be read, as after a power failure."""
    try:
        return msgspec.json.decode((settings.EXPORT_DIR / _NEWEST).read_bytes(), type=ExportVersion)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def opened(name: str) -> tuple[IO[bytes], datetime]:
    """A file of the last version, opened, and as of when it is; raises Refusal (503) before there is one."""
    version = newest()
    try:
        if version is not None:
            return (version.folder / name).open("rb"), version.made_at
    except FileNotFoundError:
        _log.warning("%s is not in %s", name, settings.EXPORT_DIR)
    message = "The files of public data are being made for the first time."
    raise Refusal("", name, message, "Try again in a minute.", status=503, retry_after_s=60)


def make(*, now: datetime) -> ExportVersion | None:
    """Make every table in every format and the data set; None where another process is at it."""
    settings.EXPORT_DIR.mkdir(parents=True, exist_ok=True)
    with only_one() as is_ours:
        if not is_ours:
            return None
        began = time.monotonic()
        version = newest()
        # Older ones go, and what a killed process left behind. Each version is kept until the one after the next
        # begins: whoever had found its address reads on.
        for other in settings.EXPORT_DIR.iterdir():
            if other.is_dir() and (version is None or other != version.folder):
                shutil.rmtree(other, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=settings.EXPORT_DIR, prefix=f"{now:%Y%m%d-%H%M%S}-"))
        # Made readable: web processes may run as somebody else of the same group.
        folder.chmod(0o755)
        try:
            _write_all(folder, now=now)
            version = ExportVersion(name=folder.name, made_at=now, took_s=round(time.monotonic() - began, 3))
            # Written next to its path and then moved: readers find the old one or the new one.
            beside = settings.EXPORT_DIR / f"{_NEWEST}.new"
            beside.write_bytes(msgspec.json.encode(version))
            beside.replace(settings.EXPORT_DIR / _NEWEST)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # a full disk is not to stay full
            raise
    return version


@contextmanager
def only_one() -> Iterator[bool]:
    """Hold the lock of the folder, which must exist; yields False if another process has it."""
    with (settings.EXPORT_DIR / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _write_all(folder: Path, *, now: datetime) -> None:
    counts = {}
    for table in TABLES.values():
        for format_name in MEDIA_TYPES:
            with (folder / f"{table.name}.{format_name}").open("wb") as file:
                file.writelines(written(table, format=format_name))
        with (folder / f"{table.name}.jsonl").open("rb") as lines:
            counts[table.name] = sum(1 for _ in lines)
    with zipfile.ZipFile(folder / DATASET, "w", zipfile.ZIP_DEFLATED) as archive:
        for table in TABLES.values():
            archive.write(folder / f"{table.name}.jsonl", f"{table.name}.jsonl")
        archive.writestr("problems.jsonl", "".join(map(_problem, registry.problems())))
        archive.writestr("schema.json", json.dumps(schema(), indent=2) + "\n")
        about = {"made_at": now, "site": settings.SITE_URL}
        about["tables"] = [(table, counts[table.name]) for table in TABLES.values()]
        archive.writestr("README.md", render_to_string("exports/data_card.md.txt", about))
        archive.writestr("CITATION.bib", citation(now))


def citation(now: datetime) -> str:
    """How the data set of that moment is cited, as BibTeX."""
    return render_to_string("exports/citation.bib.txt", {"made_at": now, "site": settings.SITE_URL})


def _problem(problem: Problem) -> str:
    """A problem as a line of JSON."""
    facts = {name: getattr(problem, name) for name in _FACTS}
    return json.dumps({"problem": problem.slug, "revision": registry.revision(problem.slug)} | facts) + "\n"


def keep_exports_fresh(stop: threading.Event) -> None:
    """Have the files made whenever they are due, until stopped: the body of a thread.

    In a process of its own, at low priority: its work is not the caller's.
    """
    stop.wait(FIRST_AFTER_S)
    while not stop.is_set():
        try:
            if _is_due() and not _make_apart(stop):
                stop.wait(AGAIN_AFTER_S)
        except OSError as error:
            _log.error("the exports cannot be kept in %s: %s", settings.EXPORT_DIR, error)
            stop.wait(AGAIN_AFTER_S)
        stop.wait(LOOK_EVERY_S)


def _is_due() -> bool:
    version = newest()
    if version is not None and timezone.now() < version.due_at:
        return False
    settings.EXPORT_DIR.mkdir(parents=True, exist_ok=True)
    with only_one() as is_ours:
        return is_ours


def _make_apart(stop: threading.Event) -> bool:
    command = ["nice", "-n", "15", sys.executable, str(settings.BASE_DIR / "manage.py"), "make_exports"]
    # What it prints is for whoever calls it by hand; its log lines come through standard error.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # noqa: S603 - all of it is ours
    while child.poll() is None:
        if stop.wait(0.2):
            child.terminate()
            child.wait()
    if child.returncode and not stop.is_set():
        _log.error("the exports could not be made: make_exports ended with %s", child.returncode)
    if child.returncode == 0:
        _log.info("the files of public data were made")
    return child.returncode == 0
