"""What a site needs before its first process answers, in one process."""

from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from portal.core.restored import complete_restore


class Command(BaseCommand):
    """`manage.py prepare`: tables, standings and shipped entries of the installed version; again, it changes nothing.

    Each step is a command that can be run by itself. Together they load the site once instead of once each, which is
    most of their time.
    """

    help = "Bring tables, standings and shipped entries to the installed version. Run it before the site's processes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One switch, for where the image does not bring static files."""
        parser.add_argument("--static", action="store_true", help="collect static files as well")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Take the steps in their order; the first that fails ends it."""
        call_command("migrate", interactive=False, verbosity=options["verbosity"])
        for table in complete_restore():
            self.stdout.write(f"The keys of {table} go on after its last row: a restore had left its sequence behind.")
        call_command("rebuild_standings", if_needed=True)
        call_command("recorded")
        if options["static"]:
            call_command("collectstatic", interactive=False, verbosity=0)
