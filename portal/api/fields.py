"""Fields that several answers share."""

import copy
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import EnumType, StrEnum
from inspect import cleandoc
from textwrap import dedent
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from django.conf import settings
from django.db import models
from drf_spectacular.drainage import set_override
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.reverse import reverse

from evaluator.contract import Verdict

Serializer = TypeVar("Serializer", bound=serializers.Serializer[Any])
Field = serializers.Field[Any, Any, Any, Any]
URI = {"type": "string", "format": "uri"}


def values_of(members: Iterable[StrEnum]) -> list[str]:
    """The values of an enum, as a choice takes them."""
    return [member.value for member in members]


class CopiedFields(serializers.Serializer[Any]):
    """A serializer whose plain fields are copied for each use.

    REST framework constructs every field anew instead, which takes longer than all else that a serializer does.
    """

    def get_fields(self) -> dict[str, Field]:
        """Fields to bind; those that hold others, which know them as their parent, are still constructed."""
        return {name: _copied(field) for name, field in self._declared_fields.items()}


def shows(of: type, names: str) -> Callable[[type[Serializer]], type[Serializer]]:
    """A decorator: the serializer shows these fields of `of`, a model or a dataclass, in this order.

    A name may say what it stands for, as in `organisation=model.organisation.slug`. A field that the serializer
    declares stays as it is. What the document says of the others is in the serializer's docstring, under `Attributes:`.
    """

    def decorate(serializer: type[Serializer]) -> type[Serializer]:
        serializer.__doc__, _, described = cleandoc(serializer.__doc__ or "").partition("\n\nAttributes:\n")
        texts = dict(line.split(": ", 1) for line in dedent(described).replace("\n    ", " ").splitlines())
        declared = serializer._declared_fields  # noqa: SLF001 - REST framework's own
        for name, _, path in (word.partition("=") for word in names.split()):
            known = declared.pop(name, None)
            options = {"source": path} if path else {}
            options |= {"help_text": texts.pop(name)} if name in texts else {}
            declared[name] = known or _made(of, path or name, options)
        assert not texts, f"{serializer.__name__} shows no {', '.join(texts)}"
        return serializer

    return decorate


def _made(of: Any, path: str, options: dict[str, Any]) -> Any:
    """The field that shows what is at `path` of a model or a dataclass, by its type there."""
    name, _, rest = path.partition(".")
    member = getattr(of, name, None)
    getter = getattr(member, "fget", None) or getattr(member, "func", None)  # of a property, or a cached one
    if issubclass(of, models.Model) and not getter:
        column: Any = of._meta.get_field(name)  # noqa: SLF001 - Django's name for it
        options |= {"allow_null": True} if column.null else {}
        if rest:
            return _made(column.related_model, rest, options)
        column = column.target_field if column.is_relation else column
        if column.choices:
            return serializers.ChoiceField(choices=[value for value, _ in column.choices], **options)
        return _KINDS[type(column)](**options)
    hint = get_type_hints(getter or of)["return" if getter else name]
    return _made(_without_none(hint, options), rest, options) if rest else _typed(hint, options)


def _typed(hint: Any, options: dict[str, Any]) -> Any:
    kind = _without_none(hint, options)
    if isinstance(kind, EnumType):
        return serializers.ChoiceField(choices=values_of(kind), **options)
    if inner := get_args(kind):  # a tuple of one type, or a mapping from text
        several = serializers.ListField if get_origin(kind) is tuple else serializers.DictField
        return several(child=_typed(inner[get_origin(kind) is not tuple], {}), **options)
    return _KINDS[kind](**options)


def _without_none(hint: Any, options: dict[str, Any]) -> Any:
    if not isinstance(hint, UnionType):
        return hint
    options["allow_null"] = True
    [kind] = (each for each in get_args(hint) if each is not NoneType)
    return kind


_KINDS: dict[Any, Any] = {
    **serializers.ModelSerializer.serializer_field_mapping,
    models.SlugField: serializers.CharField,
    models.BigAutoField: serializers.IntegerField,
    str: serializers.CharField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    datetime: serializers.DateTimeField,
    UUID: serializers.UUIDField,
}


def _copied(field: Field) -> Field:
    holds_others = isinstance(field, serializers.BaseSerializer) or hasattr(field, "child")
    return copy.deepcopy(field) if holds_others else copy.copy(field)


@extend_schema_field({"oneOf": [{"enum": values_of(Verdict)}, {"type": "null"}]})
class VerdictField(serializers.ReadOnlyField):
    """The one-word outcome; null while there is none."""

    def to_representation(self, value: Any) -> str | None:
        return value or None


class Made(serializers.ReadOnlyField):
    """What a function makes of the object and the serializer's context; `kind` is how the document describes it."""

    def __init__(self, make: Callable[[Any, Any], Any], kind: Any, **options: Any) -> None:
        super().__init__(source="*", **options)
        self._make = make
        set_override(self, "field", kind)

    def to_representation(self, value: Any) -> Any:
        return self._make(value, self.context)


def page(path: str) -> Made:
    """The address of something's page for people; `path` is formatted with the thing as `{0}`."""
    return Made(lambda shown, _: f"{settings.SITE_URL}{path.format(shown)}", URI)


def address(view: str, **keys: str) -> Made:
    """The address of something in the API; `keys` are its attributes by the names that the address has for them."""

    def of(shown: Any, context: Any) -> str:
        return reverse(
            view, kwargs={name: getattr(shown, key) for name, key in keys.items()}, request=context["request"]
        )

    return Made(of, URI)
