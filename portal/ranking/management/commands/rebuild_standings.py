"""Derive every standing anew."""

from typing import Any

from django.core.management.base import BaseCommand

from portal.ranking import actions


class Command(BaseCommand):
    """`manage.py rebuild_standings`."""

    help = "Derive every standing from the evaluations, for instance after an evaluation was taken back."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Rebuild, say how many there are."""
        self.stdout.write(f"{actions.rebuild_standings()} standings")
