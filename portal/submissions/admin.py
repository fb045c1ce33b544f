"""What an operator sees of submissions: nothing here can be edited, because actions make every move."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from portal.submissions.models import Evaluation, Report, Submission


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """A list and a view without any way to change a row past the actions."""

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        """Nobody adds here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody changes here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody deletes here."""
        return False


@admin.register(Submission)
class SubmissionAdmin(ReadOnly):
    """Submissions."""

    list_display = ("id", "author", "problem", "backend", "visibility", "created_at")
    list_filter = ("backend", "problem")
    search_fields = ("id", "author__username", "note")
    list_select_related = ("author",)


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnly):
    """Evaluations."""

    list_display = ("id", "submission", "profile", "mode", "state", "verdict", "attempt", "node", "queued_at")
    list_filter = ("state", "verdict", "profile", "mode")
    search_fields = ("id", "submission__id")
    list_select_related = ("submission", "node")


@admin.register(Report)
class ReportAdmin(ReadOnly):
    """Reports."""

    list_display = ("evaluation", "attempt", "node_name", "received_at")
    list_filter = ("node_name",)
