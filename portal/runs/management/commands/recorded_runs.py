"""The runs of models that ship with the problems: on the model board, or off it, or written from a run of this site."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.ranking.recorded import NotRecorded
from portal.refusals import Refusal
from portal.runs import recorded
from portal.runs.models import Run


class Command(BaseCommand):
    """`manage.py recorded_runs [--add | --remove | --export RUN NAME]`: without an option what PKB_RECORDED says."""

    help = (
        "Put the runs of models that ship with the problems on the model board, marked as recorded elsewhere, or "
        "remove them. Without an option PKB_RECORDED decides; if it is empty, nothing happens. --export writes a run "
        "of this site as such files, without its programs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Which of the three, whatever the setting says."""
        wanted = parser.add_mutually_exclusive_group()
        wanted.add_argument("--add", action="store_const", const=True, dest="wanted", help="Put them on the board.")
        wanted.add_argument(
            "--remove", action="store_const", const=False, dest="wanted", help="Remove them from the board."
        )
        wanted.add_argument("--export", nargs=2, metavar=("RUN", "NAME"), help="Write this run as a recorded run.")
        parser.add_argument("--published-by", default="", help="Who published the programs, where, when, what licence.")
        parser.add_argument("--folder", type=Path, help="Default: problems/data/entries/runs.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Add, remove or export; say so only when something changed."""
        try:
            if options["export"]:
                self._export(*options["export"], published_by=options["published_by"], folder=options["folder"])
                return
            wanted = settings.RECORDED if options["wanted"] is None else options["wanted"]
            if wanted:
                self._add(options["folder"])
            elif wanted is not None and (removed := recorded.remove()):
                self.stdout.write(f"{removed} recorded runs removed")
        except (NotRecorded, Refusal) as reason:
            if options["wanted"] is not None or options["export"]:
                raise CommandError(str(reason)) from reason
            # Asked for by the setting alone, as when the site starts: it can do without.
            self.stderr.write(f"no recorded runs: {reason}")

    def _add(self, folder: Path | None) -> None:
        taken = recorded.add(folder)
        for refusal in taken.refused:
            self.stderr.write(f"refused: {refusal}")
        if taken.added:
            self.stdout.write(f"{taken.added} recorded runs put on the model board")

    def _export(self, key: str, name: str, *, published_by: str, folder: Path | None) -> None:
        run = Run.objects.select_related("model").filter(pk=key).first()
        if run is None:
            raise CommandError(f"there is no run {key}")
        reports, programs = recorded.export(run, name=name, published_by=published_by, folder=folder)
        self.stdout.write(f"{name}: {reports} reports of {programs} programs")
