"""What the operators' pages share: lists that nobody edits by hand, and the page that asks for a reason first."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def nobody(self: Any, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG001 - Django's signature
    """A permission that no operator has."""
    return False


class NoAdding:
    """Rows are made elsewhere."""

    has_add_permission = nobody


class NoChanging:
    """Rows stay as they were made."""

    has_change_permission = nobody


class ReadOnly(NoAdding, NoChanging, admin.ModelAdmin):  # type: ignore[type-arg]
    """A list and a view without any way to change a row past the actions."""

    has_delete_permission = nobody


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=300, widget=forms.Textarea(attrs={"rows": 4, "cols": 80}), help_text="Public, and kept as evidence."
    )


def confirmed(request: HttpRequest) -> Any:
    """What the page of `confirm` sent, for its form; None where that page was not shown yet."""
    return request.POST if "confirmed" in request.POST else None


def confirm(
    model_admin: admin.ModelAdmin,  # type: ignore[type-arg]
    request: HttpRequest,
    queryset: QuerySet[Any],
    form: forms.Form,
    **shown: Any,
) -> HttpResponse:
    """The page that asks for what `form` has before the action that was chosen goes on; `shown` is what it shows."""
    context = {
        **model_admin.admin_site.each_context(request),
        "form": form,
        "action": request.POST["action"],
        "selected": queryset.values_list("pk", flat=True),
        "checkbox": helpers.ACTION_CHECKBOX_NAME,
        "select_across": request.POST.get("select_across", "0"),
        "opts": model_admin.opts,
        **shown,
    }
    return render(request, "admin/confirm_action.html", context)
