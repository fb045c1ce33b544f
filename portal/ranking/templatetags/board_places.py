"""Places on boards, on pages of submissions."""

from django import template

from portal.ranking import queries

register = template.Library()


register.simple_tag(queries.place_of, name="board_place")


@register.filter
def overlaps(one: queries.BoardRow, other: queries.BoardRow) -> bool:
    """Whether the intervals of two entries overlap: then the entries are not distinguishable."""
    return one.low <= other.high and other.low <= one.high


@register.filter
def over(value: float, base: float) -> float:
    """`value` in units of `base`."""
    return value / base
