"""Let a machine take work: prints its key, once."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.accounts.models import Organisation
from portal.core.errors import Refusal
from portal.nodes import actions


class Command(BaseCommand):
    help = (
        "Register a node and print its key, which is stored nowhere else. --new-key makes a new key for a registered "
        "node: the old one is good until the new one is first used, or ends --at-once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="lower-case letters, digits and hyphens")
        parser.add_argument("--new-key", action="store_true", help="make and print a new key for a registered node")
        parser.add_argument("--at-once", action="store_true", help="with --new-key: the old key is void now")
        parser.add_argument(
            "--owner", default="", help="the short name of the organisation that owns the node: makes it a guest node"
        )
        parser.add_argument(
            "--profile", action="append", default=[], help="a profile that the node may offer; repeat for more"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            if options["new_key"]:
                key = actions.replace_key(options["name"], at_once=options["at_once"])
            else:
                owner = Organisation.objects.filter(slug=options["owner"]).first()
                if options["owner"] and owner is None:
                    raise CommandError(f"there is no organisation {options['owner']!r}; create it on the site first")
                key = actions.register_node(options["name"], owner=owner, allowed_profiles=options["profile"])
        except Refusal as refusal:
            raise CommandError(f"{options['name']}: {refusal.sentences}") from refusal
        self.stdout.write(f"PKB_SITE_URL={settings.SITE_URL}")
        self.stdout.write(f"PKB_NODE_NAME={options['name']}")
        self.stdout.write(f"PKB_NODE_KEY={key}")
