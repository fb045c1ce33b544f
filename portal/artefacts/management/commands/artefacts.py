"""`manage.py artefacts check` and `sweep`."""

import hashlib
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from evaluator.contract import Stored
from evaluator.uploads import UploadRefused, put
from portal.artefacts import storage


class Command(BaseCommand):
    """What an operator does with the storage."""

    help = "check: put, read and remove an object as a node and the site do. sweep: remove what nobody asked for."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One of two words."""
        parser.add_argument("action", choices=("check", "sweep"))

    def handle(self, *_args: Any, **options: Any) -> None:
        """Do it, or say what is wrong."""
        try:
            self.stdout.write(_check() if options["action"] == "check" else _sweep())
        except (storage.StorageUnavailable, storage.NotAsStored, UploadRefused) as error:
            raise CommandError(str(error)) from error


def _sweep() -> str:
    return f"{storage.sweep(timezone.now())} objects removed"


def _check() -> str:
    upload = storage.permission_for_report("check")
    place = storage.storage()
    if upload is None or place is None:
        return "PKB_ARTEFACT_URL is not set: reports travel in messages"
    content = b"a check of the storage"
    put(upload, content, within="/")
    digest = hashlib.sha256(content).hexdigest()
    storage.taken(
        Stored(lease="", node="", evaluation_id="check", key=upload.key, sha256=digest, size_bytes=len(content))
    )
    place.remove(upload.key)
    return "an object was put with a node's permission, read, compared and removed"
