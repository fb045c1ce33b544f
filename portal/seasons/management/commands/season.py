"""Seasons at the command line."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.core.errors import Refusal
from portal.seasons import actions, definition, queries


class Command(BaseCommand):
    """`manage.py season load FILE`, `status`, `retry`, `rejudge`, and `finish SLUG`."""

    help = "Define a season with a YAML or JSON file, judge its leaders again after its end, make its standings final."

    def add_arguments(self, parser: ArgumentParser) -> None:
        todo = parser.add_subparsers(dest="todo", required=True)
        todo.add_parser("load", help="define a season, or change the fields that may still change").add_argument("file")
        for name, text in (
            ("status", "show its progress"),
            ("retry", "judge again the entries that a failure of ours ended"),
            ("rejudge", "judge the leaders of every problem again on fresh inputs; repeat it after failures"),
            ("finish", "make the standings final and publish the sources that the rules name"),
        ):
            todo.add_parser(name, help=text).add_argument("slug")
        todo.choices["finish"].add_argument(
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

    def _status(self, options: dict[str, Any]) -> str:
        season = queries.get_season(options["slug"])
        found = queries.counts(season)
        return (
            f"{season.slug}: {season.phase(timezone.now()).label.lower()}\n"
            f"entries: {found.entries}, {found.pending} of them not judged yet, {found.failed} lost by us\n"
            f"judged again: {found.rejudged}, {found.rejudge_pending} of them not judged yet, "
            f"{found.rejudge_failed} lost by us"
        )

    def _retry(self, options: dict[str, Any]) -> str:
        queued = actions.judge_failed_again(queries.get_season(options["slug"]), now=timezone.now())
        return f"{len(queued)} evaluations queued"

    def _rejudge(self, options: dict[str, Any]) -> str:
        queued = actions.rejudge_leaders(queries.get_season(options["slug"]), now=timezone.now())
        return f"{len(queued)} evaluations queued"

    def _finish(self, options: dict[str, Any]) -> str:
        chosen = queries.get_season(options["slug"])
        season = actions.finish(chosen, now=timezone.now(), despite_failures=options["despite_failures"])
        return f"{season.slug} is final"
