"""The pictures of a recorded call."""

from django import template
from django.utils.safestring import SafeString, mark_safe

from evaluator.judging.call_advice import short
from evaluator.judging.call_parts import RankSplit
from portal.submissions.reports import timelines

register = template.Library()
register.filter("short_name", short)


@register.filter
def drawn(svg: str) -> SafeString:
    return mark_safe(svg)  # noqa: S308 - escaped where it is drawn


@register.filter
def split_bar(rank: RankSplit) -> SafeString:
    """Where the time of a rank went, as a bar."""
    return mark_safe(timelines.split_bar(rank))  # noqa: S308 - numbers and our own words
