"""Let a machine take work: prints its key, once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.nodes import actions
from portal.refusals import Refusal


class Command(BaseCommand):
    """`manage.py node_add NAME`."""

    help = "Register a node and print its key, which is kept nowhere else. --new-key replaces the key of a known one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Name, and whether to replace the key."""
        parser.add_argument("name", help="lower-case letters, digits and hyphens")
        parser.add_argument("--new-key", action="store_true", help="void the key of a registered node")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Register, print."""
        register = actions.replace_key if options["new_key"] else actions.register_node
        try:
            key = register(options["name"])
        except Refusal as refusal:
            raise CommandError(f"{options['name']}: {refusal.message} {refusal.remedy}") from refusal
        self.stdout.write(f"PKB_NODE_NAME={options['name']}")
        self.stdout.write(f"PKB_NODE_KEY={key}")
