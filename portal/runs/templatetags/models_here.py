"""What models have solved here, on pages of problems and boards."""

from collections.abc import Mapping

from django import template

from portal.runs.solved import ModelResult, solved_by_models

register = template.Library()


@register.simple_tag
def models_here() -> Mapping[str, ModelResult]:
    return solved_by_models()
