"""What every subcommand shares: which site, which token, people or JSON."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from . import credentials, output
from .client import Client

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Context:
    """The options of a call that are not about what it does."""

    site: str | None
    token: str | None
    as_json: bool
    patience_s: float

    def client(self, *, least_patience_s: float = 0.0) -> Client:
        """The site that was meant; raises UsageError where none is known."""
        site, token = credentials.site_and_token(self.site, self.token)
        return Client(site, token=token, patience_s=max(self.patience_s, least_patience_s), say=output.say)


def with_context(command: Command) -> Command:
    """Add the shared options to a command and hand it a `Context` first."""

    @functools.wraps(command)
    def called(*, site: str | None, token: str | None, as_json: bool, patience_s: float, **arguments: Any) -> Any:
        return command(Context(site=site, token=token, as_json=as_json, patience_s=patience_s), **arguments)

    options = (
        click.option(
            "--site", envvar="PKB_SITE", metavar="URL", help="The site's address. Default: that of `pkb login`."
        ),
        click.option(
            "--token", envvar="PKB_TOKEN", metavar="TOKEN", help="A token. Better: set PKB_TOKEN or use `pkb login`."
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option(
            "--patience",
            "patience_s",
            type=click.FloatRange(min=0),
            default=120.0,
            show_default=True,
            metavar="SECONDS",
            help="Seconds for one call, with all its retries.",
        ),
    )
    for option in reversed(options):
        called = option(called)
    return called  # type: ignore[return-value]  # click's decorators give back what they decorate
