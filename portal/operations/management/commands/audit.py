"""Whether everything that was accepted has exactly one outcome, and quotas are exact."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.operations.audit import INVARIANTS, audit


class Command(BaseCommand):
    """`manage.py audit`: reads everything and writes nothing; ends with 1 where an invariant is broken."""

    help = "Check the database's invariants: nothing lost, nothing twice, quotas exact."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--shown", type=int, default=5, help="number of rows to name per broken invariant (default 5)"
        )
        parser.add_argument("--json", action="store_true", help="the whole result, for programs")

    def handle(self, *_args: Any, **options: Any) -> None:
        found = audit(timezone.now())
        if options["json"]:
            self.stdout.write(json.dumps(found))
        else:
            for name, rows in found.items():
                mark = f"BROKEN by {len(rows)}: " if rows else "holds "
                self.stdout.write(f"{name:24} {mark} {INVARIANTS[name].__doc__}")
                for row in rows[: options["shown"]]:
                    self.stdout.write(f"{'':24}   {row}")
        broken = [name for name, rows in found.items() if rows]
        if broken:
            raise CommandError(f"{len(broken)} of {len(found)} invariants are broken: {', '.join(broken)}")
