"""Season entries on pages of submissions."""

from collections.abc import Sequence
from typing import Any

from django import template
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.queries import Viewer
from portal.seasons import queries
from portal.seasons.models import TeamMember

register = template.Library()
register.simple_tag(queries.entries_from, name="season_entries")


@register.filter
def item_at(row: Sequence[Any], index: int) -> Any:
    return row[index]


@register.simple_tag
def seasons_for(viewer: Viewer, problem: str) -> list[TeamMember]:
    """The parts that the reader takes in open seasons with this problem."""
    if not isinstance(viewer, User):
        return []
    return queries.seasons_for(viewer, problem=problem, now=timezone.now())
