"""The site's own first entries: kernels written by hand for a few problems, public from the start."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluator.contract import Mode
from portal.accounts.actions import own_author
from portal.accounts.names import OWN_AUTHOR
from portal.core.errors import Refusal
from portal.submissions import actions
from portal.submissions.models import Visibility
from portal.submissions.uploads import bundle_from_text
from problems import registry

FOLDER = registry.DATA / "entries"


class Command(BaseCommand):
    help = f"Submit the kernels of problems/data/entries as public entries of the author {OWN_AUTHOR!r}, to be ranked."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--profile", required=True, help="for example h200x8-nomc")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Submit every file; what is refused is named, and the others go on."""
        try:
            author = own_author()
        except Refusal as refusal:
            raise CommandError(refusal.sentences) from refusal
        profile, refused = options["profile"], []
        for path in sorted(FOLDER.glob("*.py")):
            files = bundle_from_text(path.read_text(encoding="utf-8"))
            try:
                submitted = actions.create_submission(
                    author,
                    problem=path.stem,
                    backend="cuda",
                    profile=profile,
                    mode=Mode.RANKED.value,
                    files=files,
                    visibility=Visibility.PUBLIC,
                    note="written by hand by this site's authors",
                    idempotency_key=f"entry {profile} {files.digest}",
                )
            except Refusal as refusal:
                refused.append(path.stem)
                self.stderr.write(f"{path.stem}: {refusal.sentences}")
            else:
                self.stdout.write(f"{path.stem}: {submitted.submission.pk}")
        if refused:
            raise CommandError(f"{len(refused)} refused: {', '.join(refused)}")
