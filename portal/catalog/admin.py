"""Where an operator opens, closes and pauses problems."""

from typing import Any

from django import forms
from django.contrib import admin

from portal.catalog.models import ProblemSwitch
from problems import registry


@admin.register(ProblemSwitch)
class ProblemSwitchAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("slug", "is_open", "is_paused", "note")
    list_editable = ("is_open", "is_paused")

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """The problem is chosen from those there are: a switch of none switches nothing."""
        if db_field.name == "slug":
            choices = [(problem.slug, f"{problem.number:02d} {problem.title}") for problem in registry.problems()]
            return forms.ChoiceField(label="Problem", choices=choices)
        return super().formfield_for_dbfield(db_field, request, **kwargs)
