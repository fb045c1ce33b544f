"""Requests for a machine without a network, and its reports."""

import gzip
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluator.hardware import profiles
from portal.core.errors import Refusal, by_id
from portal.dispatcher import offline
from portal.nodes.models import Node
from portal.runs.models import Run


class Command(BaseCommand):
    help = (
        "Write what waits for a profile to a file that `python -m evaluator batch` judges on a machine without a "
        "network, and record the reports that come back."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        ways = parser.add_subparsers(dest="way", required=True)
        out = ways.add_parser("requests", help="write what waits")
        out.add_argument("--profile", required=True)
        out.add_argument("--run", action="append", default=[], help="only this run; repeat, the first goes first")
        out.add_argument("--output", type=Path, required=True, help="the file, compressed; readable by its owner alone")
        back = ways.add_parser("reports", help="record reports")
        back.add_argument("--node", required=True, help="the registered node that judged (manage.py node_add)")
        back.add_argument("folder", type=Path, help="the output folder of the batch, or its folder reports")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            if options["way"] == "requests":
                self._write(options["profile"], options["run"], options["output"])
            else:
                self._record(options["node"], options["folder"])
        except (Refusal, profiles.UnknownProfile) as reason:
            raise CommandError(str(reason)) from reason

    def _write(self, profile: str, keys: list[str], output: Path) -> None:
        name = profiles.get(profile).name
        message, remedy = "There is no such run.", "Give the identifier in the run's address."
        runs = [by_id(Run.objects.all(), "run", key, message, remedy) for key in keys]
        requests = list(offline.waiting_requests(name, runs=runs))
        # Sources may be private.
        output.touch(mode=0o600)
        output.write_bytes(gzip.compress("".join(f"{each.to_json()}\n" for each in requests).encode()))
        self.stdout.write(f"{len(requests)} requests written to {output}")

    def _record(self, name: str, folder: Path) -> None:
        node = Node.objects.filter(name=name, revoked_at=None).first()
        if node is None:
            raise CommandError(f"there is no node {name!r}; register it with `manage.py node_add {name}`")
        reports = folder / "reports" if (folder / "reports").is_dir() else folder
        counts, refused = offline.import_reports(list(reports.glob("*.json*")), node=node)
        for refusal in refused:
            self.stderr.write(f"refused: {refusal}")
        self.stdout.write(
            f"{counts['recorded']} reports recorded, {counts['known']} were known, {counts['foreign']} are on no "
            f"evaluation here, {len(refused)} are refused"
        )
        if refused:
            raise CommandError("some reports were refused")
