"""The entries that ship with the problems: on the boards, or off them."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.ranking import recorded
from portal.refusals import Refusal


class Command(BaseCommand):
    """`manage.py recorded [--add | --remove | --ship REPORT ...]`: idempotent; without any what PKB_RECORDED says."""

    help = (
        "Put the kernels and reports that ship with the problems on the boards, marked as recorded elsewhere, or "
        "remove them. Without an option PKB_RECORDED decides; if it is empty, nothing happens."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Which of the two, whatever the setting says."""
        wanted = parser.add_mutually_exclusive_group()
        wanted.add_argument("--add", action="store_const", const=True, dest="wanted", help="Put them on the boards.")
        wanted.add_argument(
            "--remove", action="store_const", const=False, dest="wanted", help="Remove them from the boards."
        )
        wanted.add_argument(
            "--ship",
            nargs="+",
            type=Path,
            metavar="REPORT",
            help="Check whole reports (.json or .json.gz) and put them into problems/data/entries/reports, to ship.",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Add or remove, and say so only when something changed; or ship."""
        if options["ship"]:
            self._ship(options["ship"])
            return
        wanted = settings.RECORDED if options["wanted"] is None else options["wanted"]
        if wanted is None:
            return
        if not wanted:
            if removed := recorded.remove():
                self.stdout.write(f"{removed} recorded entries removed")
            return
        try:
            taken = recorded.add()
        except (recorded.NotRecorded, Refusal) as reason:
            if options["wanted"] is not None:
                raise CommandError(str(reason)) from reason
            # Asked for by the setting alone, as when the site starts: it can do without.
            self.stderr.write(f"no recorded entries: {reason}")
            return
        for refusal in taken.refused:
            self.stderr.write(f"refused: {refusal}")
        if taken.added:
            older = f", {taken.older} of them on boards of older revisions" if taken.older else ""
            self.stdout.write(f"{taken.added} recorded entries put on the boards{older}")

    def _ship(self, paths: list[Path]) -> None:
        """Ship every report that can be; name the others."""
        refused = 0
        for path in paths:
            try:
                self.stdout.write(f"{path} ships as {recorded.ship(path)}")
            except recorded.NotRecorded as reason:
                refused += 1
                self.stderr.write(f"refused: {path}: {reason}")
        if refused:
            raise CommandError(f"{refused} of {len(paths)} reports refused")
