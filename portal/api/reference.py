"""The API's page for people, made from the OpenAPI document."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.endpoint import Endpoint
from portal.api.problem_details import KINDS
from portal.api.schema import document

Schema = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One parameter, field or response, in words."""

    name: str
    kind: str
    is_required: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one address."""

    id: str
    tag: str
    method: str
    path: str
    summary: str
    text: str
    needs_token: bool
    parameters: tuple[Row, ...]
    fields: tuple[Row, ...]
    answers: tuple[Row, ...]
    example: str


def operations(schema: Schema) -> tuple[Operation, ...]:
    """Every operation of an OpenAPI document, in its order of paths."""
    return tuple(
        _operation(schema, path, method, described)
        for path, methods in schema["paths"].items()
        for method, described in methods.items()
    )


def _operation(schema: Schema, path: str, method: str, described: Schema) -> Operation:
    return Operation(
        id=described["operationId"],
        tag=described["tags"][0],
        method=method.upper(),
        path=path,
        summary=described["summary"],
        text=described.get("description", ""),
        needs_token={} not in described.get("security", []),
        parameters=tuple(_parameter(parameter) for parameter in described.get("parameters", ())),
        fields=tuple(_fields(schema, described)),
        answers=tuple(_answers(described)),
        example=_example(described),
    )


def _parameter(parameter: Schema) -> Row:
    return Row(
        name=parameter["name"],
        kind=f"{parameter['in']}, {_kind(parameter['schema'])}",
        is_required=parameter.get("required", False),
        text=parameter.get("description", ""),
    )


def _fields(schema: Schema, described: Schema) -> Iterator[Row]:
    """The fields of every way to send a body; one that several ways share comes once."""
    seen = set()
    for media in described.get("requestBody", {}).get("content", {}).values():
        body = _resolved(schema, media["schema"])
        for name, field in body["properties"].items():
            if name not in seen:
                seen.add(name)
                text = _resolved(schema, field).get("description", "") or field.get("description", "")
                yield Row(name=name, kind=_kind(field), is_required=name in body.get("required", ()), text=text)


def _answers(described: Schema) -> Iterator[Row]:
    for status, answer in described["responses"].items():
        kinds = [_kind(media["schema"]) for media in answer.get("content", {}).values()]
        yield Row(name=str(status), kind=", ".join(kinds), is_required=False, text=answer.get("description", ""))


def _resolved(schema: Schema, part: Schema) -> Schema:
    if "$ref" not in part:
        return part
    found: Schema = schema["components"]["schemas"][part["$ref"].rsplit("/", 1)[-1]]
    return found


def _kind(part: Schema) -> str:
    """A schema's type in a word or two."""
    if "$ref" in part:
        return str(part["$ref"]).rsplit("/", 1)[-1]
    for several in ("oneOf", "anyOf", "allOf"):
        if several in part:
            return " or ".join(_kind(choice) for choice in part[several])
    if "enum" in part:
        return "one of " + ", ".join(str(value) for value in part["enum"])
    if part.get("type") == "array":
        return f"list of {_kind(part['items'])}"
    kind = part.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _example(described: Schema) -> str:
    """The first example of a body, as JSON; empty where there is none."""
    for media in described.get("requestBody", {}).get("content", {}).values():
        for example in media.get("examples", {}).values():
            return json.dumps(example["value"], indent=2)
    return ""


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """The page at /api/v1/."""
    schema = document()
    context = {
        "operations": operations(schema),
        "kinds": tuple(KINDS.values()),
        "info": schema["info"],
    }
    return render(request, "api/reference.html", context)


@require_safe
def openapi(_request: HttpRequest) -> JsonResponse:
    """The OpenAPI document itself."""
    return JsonResponse(document(), content_type="application/vnd.oai.openapi+json")


class Nowhere(Endpoint):
    """Every address under /api/v1/ that does not exist: an error in the API's own form, not a page."""

    http_method_names = ["get", "head", "post", "put", "patch", "delete", "options", "trace"]
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Answer every method alike."""
        super().initial(request, *args, **kwargs)
        remedy = "" if request.path.endswith("/") else " Addresses of the API end with a slash."
        raise NotFound(f"There is nothing at {request.path}.{remedy} /api/v1/ lists every address.")

    def get(self, _request: Request, **_: Any) -> Response:
        """Never reached: `initial` has answered."""
        raise NotFound
