"""Take a node's key away."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.core.errors import Refusal
from portal.dispatcher.leases import revoke


class Command(BaseCommand):
    help = "Revoke a node's key. Other nodes judge its evaluations. Its name cannot be used again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            released = revoke(options["name"], now=timezone.now())
        except Refusal as refusal:
            raise CommandError(f"{options['name']}: {refusal.sentences}") from refusal
        self.stdout.write(f"{options['name']} is revoked; {released} of its evaluations are queued again.")
        self.stdout.write(
            f"Take its user from the broker: python deploy/broker_credentials.py remove {options['name']}"
        )
