"""What an operator decides of runs, and sees of organisations."""

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from portal.accounts.identity import signed_in
from portal.core.admin import NoAdding, NoChanging, ReadOnly, confirm, confirmed
from portal.runs import actions
from portal.runs.models import (
    Decision,
    DecisionKind,
    LanguageModel,
    Run,
)


class DecisionForm(forms.Form):
    kind = forms.ChoiceField(label="Decision", choices=DecisionKind.choices)
    reason = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 4, "cols": 80}), help_text="Public, and kept as evidence."
    )


class DecisionInline(NoAdding, NoChanging, admin.TabularInline):  # type: ignore[type-arg]
    model = Decision
    extra = 0
    can_delete = False
    readonly_fields = ("at", "kind", "reason", "by")


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = (
        "id",
        "model",
        "mode",
        "backend",
        "profile",
        "state",
        "verification",
        "is_quarantined",
        "created_at",
    )
    list_filter = ("state", "verification", "is_quarantined", "mode", "profile", "backend")
    search_fields = ("id", "model__name", "model__organisation__slug")
    list_select_related = ("model__organisation",)
    inlines = (DecisionInline,)
    actions = ("decide",)

    @admin.action(description="Verify, audit or quarantine, with a reason")
    def decide(self, request: HttpRequest, queryset: QuerySet[Run]) -> HttpResponse | None:
        """Ask what and why, then decide for every chosen run."""
        form = DecisionForm(confirmed(request))
        if form.is_valid():
            for run in queryset:
                actions.decide(run, by=signed_in(request), **form.cleaned_data)
            kind = DecisionKind(form.cleaned_data["kind"]).label.lower()
            messages.success(request, f"{queryset.count()} runs: {kind}.")
            return None
        return confirm(self, request, queryset, form, title="Decide on runs", rows=[str(run) for run in queryset])


@admin.register(LanguageModel)
class LanguageModelAdmin(ReadOnly):
    list_display = ("slug", "name", "version", "provider", "organisation", "created_at")
    search_fields = ("slug", "name", "organisation__slug")
    list_select_related = ("organisation",)
