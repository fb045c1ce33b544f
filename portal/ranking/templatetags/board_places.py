"""Places on boards, on pages of submissions."""

from django import template

from portal.ranking import queries
from portal.submissions.models import Evaluation

register = template.Library()


@register.simple_tag
def board_place(evaluation: Evaluation) -> queries.BoardPlace | None:
    """Where the author of a passed ranked evaluation stands with it; None for any other evaluation."""
    return queries.place_of(evaluation)


@register.filter
def overlaps(one: queries.BoardRow, other: queries.BoardRow) -> bool:
    """Whether the intervals of two entries overlap: then the entries are not distinguishable."""
    return one.low <= other.high and other.low <= one.high


@register.filter
def over(value: float, base: float) -> float:
    """`value` in units of `base`."""
    return value / base
