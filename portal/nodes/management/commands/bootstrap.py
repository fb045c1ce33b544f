"""The first run of an installation on one machine: an operator who can sign in and a node that may take work."""

import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.accounts.models import User
from portal.nodes import actions as nodes
from portal.nodes.models import Node

OPERATOR = "operator"
NODE = "local"
DEFAULTS = {"PKB_NODE_PROFILES": "auto"}


class Command(BaseCommand):
    help = "Create the operator's account and register the local node, where they are missing."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Create what is missing; say so only when something was."""
        if not settings.IS_EMBEDDED:
            raise CommandError(
                "PKB_EMBEDDED is off: on a production site use `createsuperuser` and `node_add` instead of bootstrap"
            )
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        self._make_operator(settings.DATA_DIR / "operator.txt")
        self._register_node(settings.DATA_DIR / "env")

    def _make_operator(self, path: Path) -> None:
        if User.objects.filter(is_superuser=True).exists():
            return
        password = secrets.token_urlsafe(12)
        # Written first: a password that was set and then not written would lock the operator out.
        _write_private(path, f"name: {OPERATOR}\npassword: {password}\n")
        User.objects.create_superuser(OPERATOR, password=password)
        self.stdout.write(f"created the account {OPERATOR!r} with password {password} (also in {path})")

    def _register_node(self, path: Path) -> None:
        known = _variables(path)
        is_registered = Node.objects.filter(name=NODE).exists()
        if is_registered and known.get("PKB_NODE_KEY"):
            return
        key = nodes.replace_key(NODE) if is_registered else nodes.register_node(NODE)
        node = {"PKB_NODE_NAME": NODE, "PKB_NODE_KEY": key}
        lines = [f"{name}={value}" for name, value in (DEFAULTS | known | node).items()]
        _write_private(path, "\n".join(lines) + "\n")


def _variables(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, all at once or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
