"""Reports on their way from a node to the site, in a bucket or a folder instead of in messages.

A node gets permission for one object, of a bounded size and for a limited time, with its work; it never sees the site's
keys. What it says it has put there is read once, compared with the checksum in its message, and removed.
"""

import errno
import hashlib
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from evaluator.contract import Stored, Upload

logger = logging.getLogger(__name__)

REPORTS = "reports/"
MOST_BYTES = 32 * 1024**2
"""Of one object: a node's largest delivery several times over."""


class StorageUnavailable(Exception):
    """The storage does not answer now; what is asked of it may work later."""


class NotAsStored(Exception):
    """An object is missing, too large, or not what its checksum says."""


class Storage(Protocol):
    """A bucket or a folder."""

    def permission(self, key: str) -> Upload:
        """A permission to put one object under `key`, and nothing else."""

    def read(self, key: str, *, most_bytes: int) -> bytes:
        """The object; raises NotAsStored if it is missing or larger, StorageUnavailable if the storage is silent."""

    def remove(self, key: str) -> None:
        """Remove the object if it is there; raises StorageUnavailable."""

    def objects(self) -> Iterator[tuple[str, datetime]]:
        """Every object with the time of its writing; raises StorageUnavailable."""


@cache
def storage() -> Storage | None:
    """The storage that `PKB_ARTEFACT_URL` names; None where messages carry the reports.

    Raises:
        ImproperlyConfigured: the address is neither s3://bucket/prefix nor file:///folder.
    """
    address = settings.ARTEFACT_URL
    if not address:
        return None
    parts = urlsplit(address)
    if parts.scheme == "file" and parts.path.startswith("/") and not parts.netloc:
        return Folder(Path(parts.path))
    if parts.scheme == "s3" and parts.netloc:
        return Bucket(parts.netloc, prefix=parts.path.strip("/"))
    raise ImproperlyConfigured(f"PKB_ARTEFACT_URL={address} is neither s3://bucket/prefix nor file:///folder")


def permission_for_report(evaluation_id: str) -> Upload | None:
    """What lets a node put its report on this evaluation; None where messages carry the reports."""
    place = storage()
    # The last part is new each time: a node that comes late with an earlier try cannot overwrite this one.
    return place.permission(f"{REPORTS}{evaluation_id}/{secrets.token_hex(8)}.json") if place is not None else None


def taken(stored: Stored) -> bytes:
    """The object that a node says it has put, compared with what it says.

    Raises:
        NotAsStored: there is none, or it is not what the message says.
        StorageUnavailable: the storage does not answer.
    """
    place = storage()
    if place is None:
        raise NotAsStored("this site keeps no artefacts: PKB_ARTEFACT_URL is not set")
    if not _is_ours(stored):
        raise NotAsStored(f"{stored.key!r} is no key of a report on {stored.evaluation_id!r}")
    if stored.size_bytes > MOST_BYTES:
        raise NotAsStored(f"{stored.key} is said to have {stored.size_bytes} bytes, more than a report may")
    content = place.read(stored.key, most_bytes=stored.size_bytes)
    if len(content) != stored.size_bytes or hashlib.sha256(content).hexdigest() != stored.sha256:
        raise NotAsStored(f"{stored.key} is not what its node wrote")
    return content


def remove(stored: Stored) -> None:
    """Remove a report that was recorded; where the storage is away, `sweep` does it later."""
    place = storage()
    if place is None:
        return
    try:
        place.remove(stored.key)
    except StorageUnavailable as error:
        logger.warning("%s stays until the next sweep: %s", stored.key, error)


def _is_ours(stored: Stored) -> bool:
    """Whether a key from outside is of a report on its evaluation: a node is not to have the site read else."""
    return re.fullmatch(re.escape(REPORTS) + r"([\w-]{1,64})/[0-9a-f]{16}\.json", stored.key) is not None and (
        stored.key.split("/")[1] == stored.evaluation_id
    )


def sweep(now: datetime) -> int:
    """Remove objects older than `ARTEFACT_DAYS` that were never fetched; returns their number."""
    place = storage()
    if place is None:
        return 0
    old = [key for key, at in place.objects() if (now - at).days >= settings.ARTEFACT_DAYS]
    for key in old:
        place.remove(key)
    return len(old)


@dataclass(frozen=True)
class Folder:
    """A folder that site and node share, on one machine."""

    root: Path

    def permission(self, key: str) -> Upload:
        """The path; whether the node may write there is between it and the file system."""
        return Upload(url=f"file://{self._path(key)}", key=key)

    def read(self, key: str, *, most_bytes: int) -> bytes:
        """As in `Storage`."""
        try:
            # The path may be a pipe, on which a read would block, or a link to another file of the site.
            with os.fdopen(os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise NotAsStored(f"{key} is no file")
                content = file.read(most_bytes + 1)
        except FileNotFoundError as error:
            raise NotAsStored(f"{key} is not in {self.root}") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotAsStored(f"{key} is a link") from error
            raise StorageUnavailable(str(error)) from error
        if len(content) > most_bytes:
            raise NotAsStored(f"{key} is larger than its node says")
        return content

    def remove(self, key: str) -> None:
        """As in `Storage`; a folder that is empty then goes with it."""
        path = self._path(key)
        try:
            path.unlink(missing_ok=True)
            if path.parent.is_dir() and not any(path.parent.iterdir()):
                path.parent.rmdir()
        except OSError as error:
            raise StorageUnavailable(str(error)) from error

    def objects(self) -> Iterator[tuple[str, datetime]]:
        """As in `Storage`."""
        for path in self.root.rglob("*"):
            if path.is_file():
                yield str(path.relative_to(self.root)), datetime.fromtimestamp(path.stat().st_mtime, UTC)

    def _path(self, key: str) -> Path:
        return self.root / key


class Bucket:
    """A bucket of S3, MinIO, Ceph, Garage or what else speaks as they do."""

    def __init__(self, name: str, *, prefix: str) -> None:
        self._name = name
        self._prefix = f"{prefix}/" if prefix else ""

    def permission(self, key: str) -> Upload:
        """A signed form for one key, a bounded size and as long as an evaluation may take."""
        signed = _client().generate_presigned_post(
            self._name,
            self._prefix + key,
            Conditions=[["content-length-range", 1, MOST_BYTES]],
            ExpiresIn=settings.EVALUATION_DEADLINE_SECONDS + settings.LEASE_SECONDS,
        )
        return Upload(url=signed["url"], key=key, fields=signed["fields"])

    def read(self, key: str, *, most_bytes: int) -> bytes:
        """As in `Storage`."""
        with _translated(key):
            answer = _client().get_object(Bucket=self._name, Key=self._prefix + key)
            content: bytes = answer["Body"].read(most_bytes + 1)
        if len(content) > most_bytes:
            raise NotAsStored(f"{key} is larger than its node says")
        return content

    def remove(self, key: str) -> None:
        """As in `Storage`."""
        with _translated(key):
            _client().delete_object(Bucket=self._name, Key=self._prefix + key)

    def objects(self) -> Iterator[tuple[str, datetime]]:
        """As in `Storage`."""
        with _translated(self._prefix):
            pages = _client().get_paginator("list_objects_v2").paginate(Bucket=self._name, Prefix=self._prefix)
            for page in pages:
                for found in page.get("Contents", ()):
                    yield found["Key"].removeprefix(self._prefix), found["LastModified"]


class _translated:  # noqa: N801 - read as a verb after `with`
    """The library's errors in our words."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - where a bucket is used alone

        if isinstance(error, ClientError):
            code = str(error.response.get("Error", {}).get("Code"))
            if code in ("NoSuchKey", "404"):
                raise NotAsStored(f"{self._key} is not in the bucket") from error
            raise StorageUnavailable(f"the bucket refused: {error}") from error
        if isinstance(error, BotoCoreError):
            raise StorageUnavailable(f"the bucket does not answer: {error}") from error


@cache
def _client() -> Any:
    import boto3  # noqa: PLC0415 - a site without a bucket need not load it
    from botocore.config import Config  # noqa: PLC0415

    return boto3.client(
        "s3",
        endpoint_url=settings.ARTEFACT_ENDPOINT or None,
        region_name=settings.ARTEFACT_REGION,
        aws_access_key_id=settings.ARTEFACT_ACCESS_KEY,
        aws_secret_access_key=settings.ARTEFACT_SECRET_KEY,
        config=Config(
            signature_version="s3v4",
            connect_timeout=4,
            read_timeout=20,
            retries={"max_attempts": 3, "mode": "standard"},
            s3={"addressing_style": "path" if settings.ARTEFACT_ENDPOINT else "auto"},
        ),
    )
