"""Fill the database with invented submissions."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from portal.ranking import demo


class Command(BaseCommand):
    """`manage.py demo_data`."""

    help = (
        "Write invented submissions, evaluations, standings and records for load tests into the configured database; "
        f"their authors are called {demo.NAME_PREFIX}..., and their notes say that nothing was judged."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """How many, and what to do about what is there."""
        parser.add_argument("--submissions", type=int, default=1_000_000)
        parser.add_argument("--authors", type=int, default=20_000)
        parser.add_argument("--beside-real-data", action="store_true", help="Write even where people have submitted.")
        parser.add_argument("--remove", action="store_true", help="Delete all invented rows instead.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Write or delete, say how much."""
        if options["remove"]:
            self.stdout.write(f"{demo.remove()} invented submissions deleted")
            return
        for name in ("submissions", "authors"):
            if options[name] < 1:
                raise CommandError(f"--{name} is {options[name]}; it has to be at least 1")
        if demo.has_real_submissions() and not options["beside_real_data"]:
            raise CommandError(
                "this database holds submissions of people; invented ones would be on the same boards. "
                "Use another database, or pass --beside-real-data (and later --remove)"
            )
        start = time.monotonic()
        written = demo.seed(submissions=options["submissions"], authors=options["authors"], now=timezone.now())
        self.stdout.write(
            f"{written.submissions} invented submissions of {written.authors} authors, {written.standings} standings "
            f"and {written.records} records in {time.monotonic() - start:.0f} s"
        )
