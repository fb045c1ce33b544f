"""The API's page for people, made from the OpenAPI document."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe
from rest_framework.decorators import api_view, permission_classes, schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.problem_details import KINDS
from portal.api.schema import document

Schema = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One parameter, field or response, in words."""

    name: str
    kind: str
    is_required: bool
    text: SafeString


def operations(schema: Schema) -> list[dict[str, Any]]:
    """Every operation of an OpenAPI document as the page shows it, in the document's order of paths."""
    return [
        {
            "id": described["operationId"],
            "method": method.upper(),
            "path": path,
            "summary": described["summary"],
            "text": _marked(described["description"]),
            "access": _access(described["security"]),
            "parameters": [_parameter(schema, parameter) for parameter in described.get("parameters", ())],
            "bodies": list(_bodies(schema, described)),
            "answers": list(_answers(schema, described)),
            "refusals": [KINDS[int(status)] for status in described["responses"] if _is_refusal(status)],
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


def _parameter(schema: Schema, parameter: Schema) -> Row:
    return Row(
        name=parameter["name"],
        kind=f"{parameter['in']}, {_kind(schema, parameter['schema'])}",
        is_required=parameter.get("required", False),
        text=_marked(parameter.get("description", "")),
    )


def _bodies(schema: Schema, described: Schema) -> Iterator[dict[str, Any]]:
    for media_type, media in described.get("requestBody", {}).get("content", {}).items():
        body = _resolved(schema, media["schema"])
        rows = [
            Row(
                name=name,
                kind=_kind(schema, field)
                + (f"; {field['default'] or 'empty'} by default" if "default" in field else ""),
                is_required=name in body.get("required", ()),
                text=_marked(field.get("description", "")),
            )
            for name, field in body.get("properties", {}).items()  # a stream of bytes has no fields
        ]
        yield {"media_type": media_type, "fields": rows}


def _is_refusal(status: str) -> bool:
    return int(status) >= 400


def _answers(schema: Schema, described: Schema) -> Iterator[Row]:
    """What a call that is carried out answers; refusals mean the same everywhere and are explained once."""
    for status, answer in described["responses"].items():
        if _is_refusal(status):
            continue
        kinds = [_kind(schema, media["schema"]) for media in answer.get("content", {}).values()]
        text = _marked(answer.get("description", ""))
        yield Row(name=str(status), kind=", ".join(kinds), is_required=False, text=text)


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
@permission_classes([])
def nowhere(request: Request) -> Response:
    """Answer every address under /api/v1/ that does not exist: an error in the API's own form, not a page."""
    remedy = "" if request.path.endswith("/") else " Addresses of the API end with a slash."
    raise NotFound(f"There is nothing at {request.path}.{remedy} /api/v1/ lists every address.")
