"""Where an operator writes the privacy page and the terms."""

from django.contrib import admin

from portal.pages.models import OperatorsPage


@admin.register(OperatorsPage)
class OperatorsPageAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """One row for each page whose default text the operator has replaced."""

    list_display = ("name", "changed_at")
