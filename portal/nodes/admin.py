"""Where an operator takes nodes out of service. Keys are made by `manage.py node_add` and shown once."""

from django.contrib import admin
from django.http import HttpRequest

from portal.nodes.models import Node


@admin.register(Node)
class NodeAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Nodes: only whether they get work can be changed."""

    list_display = ("name", "is_enabled", "seen_at", "sandbox")
    list_editable = ("is_enabled",)
    readonly_fields = ("name", "created_at", "seen_at", "sandbox", "backends", "revisions", "environment")
    exclude = ("key_digest",)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        """Registering makes a key, which a form cannot show once."""
        return False
