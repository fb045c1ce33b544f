"""What ships with the problems: put on the site, or removed."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.core.errors import Refusal
from portal.operations.recorded import kernels, runs
from portal.operations.recorded.reports import NotRecorded

KINDS = {"entries": kernels, "runs of models": runs}


class Command(BaseCommand):
    """`manage.py recorded [--add | --remove]`: idempotent."""

    help = (
        "Put the kernels and the runs of models that ship with the problems on this site, marked as "
        "recorded elsewhere, or remove them. Without an option PKB_RECORDED decides; if it is empty, nothing happens."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        wanted = parser.add_mutually_exclusive_group()
        wanted.add_argument("--add", action="store_const", const=True, dest="wanted", help="Put them on the site.")
        wanted.add_argument("--remove", action="store_const", const=False, dest="wanted", help="Remove them.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Add or remove, and say so only when something changed."""
        wanted = settings.RECORDED if options["wanted"] is None else options["wanted"]
        for name, kind in KINDS.items() if wanted is not None else ():
            if not wanted:
                self._say(kind.remove(), f"recorded {name} removed")
                continue
            try:
                added, refused = kind.add()
            except (NotRecorded, Refusal) as reason:
                if options["wanted"] is not None:
                    raise CommandError(str(reason)) from reason
                # Asked for by the setting alone, as when the site starts: it can do without.
                self.stderr.write(f"no recorded {name}: {reason}")
                continue
            for refusal in refused:
                self.stderr.write(f"refused: {refusal}")
            self._say(added, f"recorded {name} added")

    def _say(self, count: int, what: str) -> None:
        if count:
            self.stdout.write(f"{count} {what}")
