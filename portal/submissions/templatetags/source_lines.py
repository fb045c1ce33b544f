"""Logs with links into the source below them."""

from collections.abc import Iterable

from django import template
from django.utils.safestring import SafeString

from portal.submissions.reports import source_links

register = template.Library()


@register.filter
def own_frames(text: str, paths: Iterable[str]) -> str:
    """The part of a stack that is in the submission's own files."""
    return source_links.own_frames(text, paths=paths)


@register.filter
def linked(text: str, paths: Iterable[str]) -> SafeString:
    """`text` with every mention of a line of one of `paths` linked to that line."""
    return source_links.linked(text, paths=paths)
