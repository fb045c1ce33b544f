"""Recompute every standing."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from portal.ranking import actions


class Command(BaseCommand):
    help = "Recompute standings, boards, records and people from the evaluations, for instance after one was withdrawn."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--if-needed", action="store_true", help="Only when problems or the site changed since the last time."
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["if_needed"] and not actions.is_rebuild_needed():
            return
        self.stdout.write(f"{actions.rebuild_standings()} standings")
