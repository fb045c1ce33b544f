"""What an operator decides of runs, and sees of organisations."""

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from portal.accounts.identity import signed_in
from portal.runs import actions
from portal.runs.models import (
    Decision,
    DecisionKind,
    LanguageModel,
    Run,
)
from portal.submissions.admin import ReadOnly


class DecisionForm(forms.Form):
    """What is decided, and why."""

    kind = forms.ChoiceField(label="Decision", choices=DecisionKind.choices)
    reason = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 4, "cols": 80}), help_text="Public, and kept as evidence."
    )


class DecisionInline(admin.TabularInline):  # type: ignore[type-arg]
    """Decisions so far."""

    model = Decision
    extra = 0
    can_delete = False
    readonly_fields = ("at", "kind", "reason", "by")

    def has_add_permission(self, request: HttpRequest, obj: Run | None = None) -> bool:  # noqa: ARG002
        """Decisions are made through the action, which asks for the reason."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Decision | None = None) -> bool:  # noqa: ARG002
        """Evidence cannot be changed."""
        return False


@admin.register(Run)
class RunAdmin(ReadOnly):
    """Runs."""

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
        form = DecisionForm(request.POST if "confirmed" in request.POST else None)
        if form.is_valid():
            for run in queryset:
                actions.decide(run, by=signed_in(request), **form.cleaned_data)
            kind = DecisionKind(form.cleaned_data["kind"]).label.lower()
            messages.success(request, f"{queryset.count()} runs: {kind}.")
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": "Decide on runs",
            "form": form,
            "rows": [str(run) for run in queryset],
            "action": "decide",
            "selected": queryset.values_list("pk", flat=True),
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "select_across": request.POST.get("select_across", "0"),
            "opts": self.opts,
        }
        return render(request, "admin/confirm_action.html", context)


@admin.register(LanguageModel)
class LanguageModelAdmin(ReadOnly):
    """Models."""

    list_display = ("slug", "name", "version", "provider", "organisation", "created_at")
    search_fields = ("slug", "name", "organisation__slug")
    list_select_related = ("organisation",)
