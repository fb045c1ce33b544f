"""Makes the files of public data, as the dispatcher has it done every so often."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from portal.exports import files


class Command(BaseCommand):
    help = "Make the files of public data that /api/v1/exports/ serves."

    def handle(self, *_args: Any, **_options: Any) -> None:
        version = files.make(now=timezone.now())
        if version is None:
            self.stdout.write("another process is making the files")
        else:
            self.stdout.write(f"{version.folder}, in {version.took_s:.1f} s")
