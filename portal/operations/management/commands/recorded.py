"""What ships with the problems: put on the site, removed, or added to what ships."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.core.errors import Refusal
from portal.operations.recorded import kernels, runs, season
from portal.operations.recorded.reports import NotRecorded
from portal.runs.models import Run

KINDS = {"entries": kernels, "seasons": season, "runs of models": runs}


class Command(BaseCommand):
    """`manage.py recorded [--add | --remove | --ship REPORT ... | --export RUN NAME]`: idempotent."""

    help = (
        "Put the kernels, the season and the runs of models that ship with the problems on this site, marked as "
        "recorded elsewhere, or remove them. Without an option PKB_RECORDED decides; if it is empty, nothing happens."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add or remove, whatever the setting says, or write what ships."""
        wanted = parser.add_mutually_exclusive_group()
        wanted.add_argument("--add", action="store_const", const=True, dest="wanted", help="Put them on the site.")
        wanted.add_argument("--remove", action="store_const", const=False, dest="wanted", help="Remove them.")
        wanted.add_argument(
            "--ship",
            nargs="+",
            type=Path,
            metavar="REPORT",
            help="Check whole reports (.json or .json.gz) on the kernels of problems/data/entries and let them ship.",
        )
        wanted.add_argument(
            "--export",
            nargs=2,
            metavar=("RUN", "NAME"),
            help="Let a run of this site ship, without its programs.",
        )
        parser.add_argument("--published-by", default="", help="Who published its programs, where, when, licence.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Add or remove, and say so only when something changed; or write what ships."""
        if options["ship"]:
            self._ship(options["ship"])
        elif options["export"]:
            self._export(*options["export"], published_by=options["published_by"])
        elif (wanted := settings.RECORDED if options["wanted"] is None else options["wanted"]) is not None:
            for name, kind in KINDS.items():
                if not wanted:
                    self._say(kind.remove(), f"recorded {name} removed")
                    continue
                try:
                    outcome = kind.add()
                except (NotRecorded, Refusal) as reason:
                    if options["wanted"] is not None:
                        raise CommandError(str(reason)) from reason
                    # Asked for by the setting alone, as when the site starts: it can do without.
                    self.stderr.write(f"no recorded {name}: {reason}")
                    continue
                for refusal in outcome.refused:
                    self.stderr.write(f"refused: {refusal}")
                older = f", {outcome.older} of them on boards of older revisions" if outcome.older else ""
                self._say(outcome.added, f"recorded {name} added{older}")

    def _say(self, count: int, what: str) -> None:
        if count:
            self.stdout.write(f"{count} {what}")

    def _ship(self, paths: list[Path]) -> None:
        """Ship every report that can be; name the others."""
        refused = 0
        for path in paths:
            try:
                self.stdout.write(f"{path} ships in {kernels.ship(path)}")
            except NotRecorded as reason:
                refused += 1
                self.stderr.write(f"refused: {path}: {reason}")
        if refused:
            raise CommandError(f"{refused} of {len(paths)} reports refused")

    def _export(self, key: str, name: str, *, published_by: str) -> None:
        try:
            run = Run.objects.select_related("model").get(pk=key)
            reports, programs = runs.export(run, name=name, published_by=published_by)
        except (Run.DoesNotExist, ValidationError) as error:
            raise CommandError(f"there is no run {key}") from error
        except Refusal as refusal:
            raise CommandError(str(refusal)) from refusal
        self.stdout.write(f"{name}: {reports} reports of {programs} programs")
