"""Where an operator opens, closes and pauses problems."""

from django.contrib import admin

from portal.catalog.models import ProblemSwitch


@admin.register(ProblemSwitch)
class ProblemSwitchAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """One row per problem that was ever switched."""

    list_display = ("slug", "is_open", "is_paused", "note")
    list_editable = ("is_open", "is_paused")
