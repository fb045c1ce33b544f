"""What the command prints: results on standard output, for people or as JSON; everything else on standard error."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

errors = Console(stderr=True, highlight=False)
results = Console(highlight=False)


def print_json(value: Any) -> None:
    """One line of JSON."""
    click.echo(msgspec.json.encode(value))


def print_text(text: str) -> None:
    """Text as it is."""
    click.echo(text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows below their names; as tab-separated lines where the output is no terminal."""
    if not results.is_terminal:
        # In one piece, so that `| head` does not break the pipe in the middle.
        click.echo("\n".join("\t".join(row) for row in [columns, *rows]))
        return
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    results.print(table)


def say(text: str) -> None:
    """A remark beside the result."""
    errors.print(text, markup=False, soft_wrap=True)


def progress(*, is_bytes: bool = False) -> Progress:
    """A bar that shows itself on a terminal only and leaves nothing behind."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if is_bytes else MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
