"""Season entries on pages of submissions."""

from collections.abc import Sequence
from typing import Any

from django import template

from portal.seasons import queries

register = template.Library()
register.simple_tag(queries.entries_from, name="season_entries")
register.simple_tag(queries.seasons_for)


@register.filter
def item_at(row: Sequence[Any], index: int) -> Any:
    return row[index]
