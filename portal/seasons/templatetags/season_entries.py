"""Season entries on pages of submissions."""

from django import template

from portal.seasons import queries

register = template.Library()
register.simple_tag(queries.entries_from, name="season_entries")
register.simple_tag(queries.seasons_for)
