"""The OpenAPI document: what operations may refuse, and the report's schema straight from the contract."""

import re
from collections.abc import Mapping
from functools import cache
from inspect import cleandoc
from typing import Any

import msgspec
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.permissions import IsAuthenticatedOrReadOnly

from evaluator.contract import Delivery, EvaluationReport, NodeStatus, Progress, Receipt
from portal.api.auth import IsNode
from portal.api.problem_details import KINDS, MEDIA_TYPE, describe
from portal.catalog.queries import get_profile
from portal.core.errors import Refusal
from portal.exports.tables import TABLES

_REFERENCES = "#/components/schemas/{name}"
_NUMBER = {"type": "integer", "format": "int64", "minimum": 0}
_UUID = {"type": "string", "format": "uuid"}

LOCATION = OpenApiParameter(
    "Location", OpenApiTypes.URI, "header", response=[201], description="The address of what was created."
)


def idempotency_key(description: str) -> OpenApiParameter:
    """The header by which a call is recognised as a repetition."""
    form = {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[ -~]+$"}
    return OpenApiParameter("Idempotency-Key", form, "header", description=description)


_PATH_PARAMETERS: Mapping[str, tuple[Any, str]] = {
    "problems/{slug}": ({"type": "string"}, "A problem's name, such as `allreduce`."),
    "models/{slug}": ({"type": "string"}, "A model's short name."),
    "organisations/{slug}": ({"type": "string"}, "An organisation's short name."),
    "seasons/{slug}": ({"type": "string"}, "A season's name."),
    "nodes/{name}": ({"type": "string", "pattern": "^[a-z0-9-]{1,60}$"}, "The node's name."),
    "submissions/{submission_id}": (_UUID, "The `id` of a submission."),
    "evaluations/{evaluation_id}": (_UUID, "The `id` of one of its evaluations."),
    "runs/{run_id}": (_UUID, "The `id` of a run."),
    "attempts/{attempt_id}": (_NUMBER, "The `id` of an attempt."),
    "webhooks/{webhook_id}": (_NUMBER, "The `id` of a webhook."),
    "exports/{table}": ({"type": "string", "enum": sorted(TABLES)}, "Which table."),
}
"""What stands between the slashes of an address."""
_CREDENTIALS = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "pkb_...",
        "description": "A token from the account page. Scopes: `read` own submissions, `submit` and cancel, "
        "`runs:read` own organisations' runs, `runs:write` create, fill and publish them.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "sessionid",
        "description": "The session of a signed-in browser; POST also needs the header `X-CSRFToken`.",
    },
    "node": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "pkn_...",
        "description": "The key of the node that the address names, as `manage.py node_add` printed it.",
    },
}
_SUCCESSES = {
    "200": "Success.",
    "201": "Created.",
    "202": "Accepted; it is done shortly.",
    "204": "Done.",
    "304": "Nothing changed.",
}
# Any call may meet a bad token, a used-up rate, a wrong method, a failure of ours or a database that is away.
_ALWAYS = {401, 429, 500, 503}
_BODY_REFUSALS = {400, 411, 413, 415, 422}


class ResourceSchema(AutoSchema):
    """Names what spectacular cannot see: the part of the API, and pages as they always were."""

    view: Any  # a Resource; spectacular knows of an APIView

    def get_tags(self) -> list[str]:
        return [self.view.tag]

    def get_paginated_name(self, serializer_name: str) -> str:
        return f"{serializer_name}Page"

    def get_auth(self) -> list[dict[str, list[str]]]:
        """The ways to be let in; the empty one stands for nobody in particular."""
        if IsNode in self.view.permission_classes:
            return [{"node": []}]
        scope = self.view.scope_for(self.method)
        ways: list[dict[str, list[str]]] = [{"token": [str(scope)] if scope else []}, {"session": []}]
        is_open = self.method == "GET" and IsAuthenticatedOrReadOnly in self.view.permission_classes
        return [*ways, {}] if is_open else ways


def describe_operations(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Describe parameters of paths and responses, and add the refusals that follow from the rest (a hook)."""
    for path, methods in result["paths"].items():
        for method, operation in methods.items():
            refused = {int(status) for status in operation["responses"] if int(status) >= 400} | _ALWAYS
            for parameter in operation.get("parameters", ()):
                refused |= {404} if parameter["in"] == "path" or parameter["name"] == "cursor" else set()
                if parameter["in"] == "path":
                    [place] = re.findall(rf"\w+/{{{parameter['name']}}}", path)
                    parameter["schema"], parameter["description"] = _PATH_PARAMETERS[place]
            refused |= {422} if method == "get" else set()
            refused |= {403} if any(way.get("token") for way in operation["security"]) else set()
            refused |= _BODY_REFUSALS if "requestBody" in operation else set()
            responses = operation["responses"]
            for status, response in responses.items():
                if response["description"] in ("", "No response body"):
                    response["description"] = _SUCCESSES.get(status, "")
            problem = {"schema": {"$ref": _REFERENCES.format(name="ProblemDetailsOutput")}}
            for status in sorted(refused):
                responses.pop(str(status), None)
                responses[str(status)] = {"content": {MEDIA_TYPE: problem}, "description": KINDS[status].meaning}
    try:
        get_profile("h900x8")
    except Refusal as refusal:
        example = describe(refusal, None) | {"request_id": "5f0c6e3bd2a44c0c9a0b8d6e1f7a2b3c"}
        result["components"]["schemas"]["ProblemDetailsOutput"]["examples"] = [example]
    return result


def complete_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add what spectacular cannot see: the contract's own schemas, credentials, and what bodies refuse (a hook)."""
    components = result.setdefault("components", {})
    components["securitySchemes"] = _CREDENTIALS
    schemas = components.setdefault("schemas", {})
    for name, schema in schemas.items():
        if name.endswith("Request"):
            schema["additionalProperties"] = False
        if name in {"SubmissionInputRequest", "AttemptInputRequest"}:
            schema["oneOf"] = [{"required": ["source"]}, {"required": ["files"]}]
    kinds = (EvaluationReport, NodeStatus, Progress, Delivery, Receipt)
    for name, schema in msgspec.json.schema_components(kinds, ref_template=_REFERENCES)[1].items():
        schemas.setdefault(name, {**schema, "description": cleandoc(schema.get("description", ""))})
    return result


@cache
def document() -> dict[str, Any]:
    """The whole OpenAPI document, made once per process: nothing in it depends on the request."""
    generated: dict[str, Any] = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]  # untyped
    return generated
