"""Where an operator takes nodes out of service. Keys are made by `manage.py node_add` and shown once."""

from django.contrib import admin

from portal.core.admin import NoAdding
from portal.nodes.models import Node, Slot


class SlotInline(NoAdding, admin.TabularInline):  # type: ignore[type-arg]
    """A node's slots as last reported. The note of a quarantined slot gives the reason."""

    model = Slot
    fields = ("index", "profile", "state", "note")
    readonly_fields = fields
    extra = 0
    can_delete = False


_SHOWN = tuple(
    field.name
    for field in Node._meta.fields  # noqa: SLF001 - Django's name for it
    if field.name not in ("id", "key_digest", "earlier_key_digest", "revisions")  # a digest of each problem
)


@admin.register(Node)
class NodeAdmin(NoAdding, admin.ModelAdmin):  # type: ignore[type-arg]
    """Nodes: only whether they get work can be changed. Registering makes a key, which a form cannot show once."""

    list_display = ("name", "owner", "is_enabled", "revoked_at", "seen_at", "sandbox")
    list_editable = ("is_enabled",)
    readonly_fields = tuple(name for name in _SHOWN if name != "is_enabled")
    fields = _SHOWN
    inlines = (SlotInline,)
