"""What models have solved here, on pages of problems and boards."""

from django import template

from portal.runs.page_data import solved_by_models

register = template.Library()
register.simple_tag(solved_by_models, name="models_here")
