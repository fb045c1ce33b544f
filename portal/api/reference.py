"""The API's page for people, made from the OpenAPI document."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe
from rest_framework.decorators import api_view, authentication_classes, permission_classes, schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.problem_details import KINDS
from portal.api.schema import document

Schema = Mapping[str, Any]


def operations(schema: Schema) -> list[dict[str, Any]]:
    """Every operation of an OpenAPI document as the page shows it, in the document's order of paths.

    Each parameter, field and response has a `name`, a `kind`, a `text`, and may have `is_required`.
    """
    return [
        {
            "id": described["operationId"],
            "method": method.upper(),
            "path": path,
            "summary": described["summary"],
            "text": _marked(described["description"]),
            "access": _access(described["security"]),
            "parameters": [
                {
                    "name": each["name"],
                    "kind": f"{each['in']}, {_kind(schema, each['schema'])}",
                    "is_required": each.get("required", False),
                    "text": _marked(each.get("description", "")),
                }
                for each in described.get("parameters", ())
            ],
            "bodies": [
                {"media_type": media_type, "fields": _fields(schema, _resolved(schema, media["schema"]))}
                for media_type, media in described.get("requestBody", {}).get("content", {}).items()
            ],
            # Refusals mean the same everywhere and are explained once.
            "answers": [
                {
                    "name": status,
                    "kind": ", ".join(_kind(schema, media["schema"]) for media in answer.get("content", {}).values()),
                    "text": _marked(answer.get("description", "")),
                }
                for status, answer in described["responses"].items()
                if status < "400"
            ],
            "refusals": [KINDS[int(status)] for status in described["responses"] if status >= "400"],
            "example": _example(described),
        }
        for path, methods in schema["paths"].items()
        for method, described in methods.items()
    ]


def _marked(text: str) -> SafeString:
    pieces = (format_html("<code>{}</code>" if i % 2 else "{}", part) for i, part in enumerate(text.split("`")))
    return format_html_join("", "{}", ((piece,) for piece in pieces))


def _access(security: Sequence[Schema]) -> str:
    if any("node" in way for way in security):
        return "a node's key"
    scopes = [scope for way in security for scope in way.get("token", ())]
    scope = f"scope {scopes[0]}" if scopes else ""
    if {} in security:
        return f"open; a token needs {scope}" if scope else "open"
    return f"token, {scope}" if scope else "token"


def _fields(schema: Schema, body: Schema) -> list[dict[str, Any]]:
    """The fields of a body; a stream of bytes has none."""
    return [
        {
            "name": name,
            "kind": _kind(schema, field)
            + (f"; {field['default'] or 'empty'} by default" if "default" in field else ""),
            "is_required": name in body.get("required", ()),
            "text": _marked(field.get("description", "")),
        }
        for name, field in body.get("properties", {}).items()
    ]


def _resolved(schema: Schema, part: Schema) -> Schema:
    if "$ref" not in part:
        return part
    found: Schema = schema["components"]["schemas"][part["$ref"].rsplit("/", 1)[-1]]
    return found


def _kind(schema: Schema, part: Schema) -> str:
    """A schema's type in a word or two; words to choose from are spelled out, objects named."""
    target = _resolved(schema, part)
    if "enum" in target:
        return "one of " + ", ".join(str(value) for value in target["enum"])
    if "$ref" in part:
        return str(part["$ref"]).rsplit("/", 1)[-1]
    for several in ("oneOf", "anyOf", "allOf"):
        if several in part:
            return " or ".join(_kind(schema, choice) for choice in part[several])
    if part.get("type") == "array":
        return f"list of {_kind(schema, part['items'])}"
    kind = part.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _example(described: Schema) -> str:
    for media in described.get("requestBody", {}).get("content", {}).values():
        for example in media.get("examples", {}).values():
            return json.dumps(example["value"], indent=2)
    return ""


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """The page at /api/v1/."""
    described = document()
    context = {
        "operations": operations(described),
        "kinds": tuple(KINDS.values()),
        "about": _marked(described["info"]["description"]),
    }
    return render(request, "api/reference.html", context)


@require_safe
def openapi(_request: HttpRequest) -> JsonResponse:
    """The OpenAPI document itself."""
    return JsonResponse(document(), content_type="application/vnd.oai.openapi+json")


@api_view(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@schema(None)
@authentication_classes([])  # a node of a later version has a key and says what this one does not know
@permission_classes([])
def nowhere(request: Request) -> Response:
    """Answer every address under /api/v1/ that does not exist: an error in the API's own form, not a page."""
    remedy = "" if request.path.endswith("/") else " Addresses of the API end with a slash."
    raise NotFound(f"There is nothing at {request.path}.{remedy} /api/v1/ lists every address.")
