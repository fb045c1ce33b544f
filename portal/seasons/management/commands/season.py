"""Seasons at the command line."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.core.errors import Refusal
from portal.seasons import actions, definition, queries


class Command(BaseCommand):
    """`manage.py season load FILE` and `finish SLUG`; everything else is done on a season's page."""

    help = "Define a season with a YAML or JSON file, or make its standings final."

    def add_arguments(self, parser: ArgumentParser) -> None:
        todo = parser.add_subparsers(dest="todo", required=True)
        todo.add_parser("load", help="define a season, or change the fields that may still change").add_argument("file")
        finish = todo.add_parser("finish", help="make the standings final and publish the sources that the rules name")
        finish.add_argument("slug")
        finish.add_argument(
            "--despite-failures",
            action="store_true",
            help="an entry whose rejudge keeps failing on our side counts as not solved",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            self.stdout.write(getattr(self, f"_{options['todo']}")(options))
        except Refusal as refusal:
            raise CommandError(f"{refusal.field} {refusal.value}: {refusal.sentences}") from refusal

    def _load(self, options: dict[str, Any]) -> str:
        try:
            text = Path(options["file"]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{options['file']} cannot be read: {error}") from error
        season = actions.define(definition.read(text), now=timezone.now())
        return f"{season.slug}: {season.phase(timezone.now()).label.lower()}, {season.opens_at} to {season.closes_at}"

    def _finish(self, options: dict[str, Any]) -> str:
        chosen = queries.get_season(options["slug"])
        season = actions.finish(chosen, now=timezone.now(), despite_failures=options["despite_failures"])
        return f"{season.slug} is final"
