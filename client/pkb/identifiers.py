"""Identifiers as people have them: on their own, or as the address of a page."""

import uuid

from .errors import UsageError


def identifier(text: str) -> str:
    """An identifier as the site writes it; raises UsageError where `text` is none and does not end with one."""
    last = text.rstrip("/").rpartition("/")[2]
    try:
        return str(uuid.UUID(last))
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not an identifier; copy it from the page's address or from the output of pkb."
        ) from error
