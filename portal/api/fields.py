"""Fields that several answers share."""

import copy
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from evaluator.contract import Verdict

URI = {"type": "string", "format": "uri"}
SCORE_RULE_HELP = "The timing rule of the score. Scores of different rules are not comparable."


def values_of(members: Iterable[StrEnum]) -> list[str]:
    """The values of an enum, as a choice takes them."""
    return [member.value for member in members]


class CopiedFields(serializers.Serializer[Any]):
    """A serializer whose plain fields are copied for each use.

    REST framework constructs every field anew instead, which takes longer than all else that a serializer does.
    """

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Fields to bind; those that hold others, which know them as their parent, are still constructed."""
        return {
            name: copy.deepcopy(field) if _holds_others(field) else copy.copy(field)
            for name, field in self._declared_fields.items()
        }


def _holds_others(field: object) -> bool:
    return isinstance(field, serializers.BaseSerializer) or hasattr(field, "child")


@extend_schema_field({"oneOf": [{"enum": values_of(Verdict)}, {"type": "null"}]})
class VerdictField(serializers.ReadOnlyField):
    """The one-word outcome; null while there is none."""

    def to_representation(self, value: Any) -> str | None:
        """The stored text is empty until it is known."""
        return value or None


@extend_schema_field(URI)
class PageField(serializers.ReadOnlyField):
    """The address of something's page for people; `path` is formatted with the thing as `{0}`."""

    def __init__(self, path: str) -> None:
        super().__init__(source="*")
        self._path = path

    def to_representation(self, value: Any) -> str:
        """A whole address."""
        return f"{settings.SITE_URL}{self._path.format(value)}"


class AddressField(serializers.HyperlinkedIdentityField):
    """The address of something in the API, by its key under the name that the address has for it."""

    def __init__(self, view_name: str, *, lookup_url_kwarg: str, lookup_field: str = "pk") -> None:
        super().__init__(view_name, lookup_url_kwarg=lookup_url_kwarg, lookup_field=lookup_field)

    def to_representation(self, value: Any) -> str:  # type: ignore[override]  # its own Hyperlink is text as well
        """Plain text, which a Location header holds too; REST framework's own page of links is not served."""
        return str(super().to_representation(value))


class CountField(serializers.IntegerField):
    """How many lines of an upload ended under the field's own name."""

    def __init__(self, **options: Any) -> None:
        super().__init__(read_only=True, **options)

    def get_attribute(self, instance: Any) -> int:
        """Counted by the upload's result."""
        return int(instance.count(self.field_name))
