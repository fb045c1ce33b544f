"""The OpenAPI document: what operations may refuse, and the report's schema straight from the contract."""

import re
from collections.abc import Mapping
from functools import cache
from inspect import cleandoc
from typing import Any

import msgspec
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerFieldExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from evaluator.contract import Delivery, EvaluationReport, NodeStatus, Progress, Receipt
from evaluator.hardware import profiles
from portal.api.inputs import unknown_profile
from portal.api.problem_details import KINDS, MEDIA_TYPE, describe
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
    "deliveries/{delivery_id}": (_UUID, "The `id` of a delivery."),
    "invitations/{invitation_id}": (_NUMBER, "The `id` of an invitation."),
    "exports/{table}": ({"type": "string", "enum": sorted(TABLES)}, "Which table."),
}
"""What stands between the slashes of an address."""
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
        """The part of the API."""
        return [self.view.tag]

    def get_paginated_name(self, serializer_name: str) -> str:
        """The name of a page of these."""
        return f"{serializer_name}Page"


def describe_operations(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Describe parameters of paths and responses, and add the refusals that follow from the rest (a hook)."""
    for path, methods in result["paths"].items():
        for method, operation in methods.items():
            refused = {int(status) for status in operation["responses"] if int(status) >= 400} | _ALWAYS
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    refused.add(404)
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
    example = describe(unknown_profile("h900x8"), None)
    result["components"]["schemas"]["ProblemDetailsOutput"]["examples"] = [example.body]
    return result


def add_report_schemas(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Put the judge's report and what nodes say into the document, as the contract has them (a spectacular hook)."""
    kinds = (EvaluationReport, NodeStatus, Progress, Delivery, Receipt)
    components: Mapping[str, Any] = msgspec.json.schema_components(kinds, ref_template=_REFERENCES)[1]
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in components.items():
        schemas.setdefault(name, {**schema, "description": cleandoc(schema.get("description", ""))})
    return result


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # spectacular is untyped
    """How the OpenAPI document describes the token."""

    target_class = "portal.api.auth.BearerAuthentication"
    name = "token"

    def get_security_definition(self, _auto_schema: Any) -> dict[str, str]:
        """A bearer scheme."""
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "pkb_...",
            "description": "A token from the account page. Scopes: `read` own submissions, `submit` and cancel, "
            "`runs:read` own organisations' runs, `runs:write` create, fill and publish them.",
        }

    def get_security_requirement(self, auto_schema: Any) -> dict[str, list[str]]:
        """The token with the scope that the method needs."""
        scope = auto_schema.view.scope_for(auto_schema.method)
        return {"token": [str(scope)] if scope else []}


class NodeScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # spectacular is untyped
    """How the OpenAPI document describes a node's key."""

    target_class = "portal.api.node_views.NodeKey"
    name = "node"

    def get_security_definition(self, _auto_schema: Any) -> dict[str, str]:
        """A bearer scheme."""
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "pkn_...",
            "description": "The key of the node that the address names, as `manage.py node_add` printed it.",
        }


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # spectacular is untyped
    """How the OpenAPI document describes a browser's session."""

    target_class = "rest_framework.authentication.SessionAuthentication"
    name = "session"
    priority = 1

    def get_security_definition(self, _auto_schema: Any) -> dict[str, str]:
        """A cookie; writes also need the CSRF token."""
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The session of a signed-in browser; POST also needs the header `X-CSRFToken`.",
        }


class ProfileNameSchema(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]  # spectacular is untyped
    """Says which profiles there are."""

    target_class = "portal.api.inputs.ProfileName"

    def map_serializer_field(self, _auto_schema: Any, _direction: str) -> dict[str, Any]:
        """A choice among their names."""
        return {"type": "string", "enum": list(profiles.profiles())}


class PatternedSchema(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]  # spectacular is untyped
    """Says of which form a text is."""

    target_class = "portal.api.inputs.Patterned"

    def map_serializer_field(self, _auto_schema: Any, _direction: str) -> dict[str, Any]:
        """A string with its pattern and greatest length."""
        return {"type": "string", "pattern": self.target.pattern, "maxLength": self.target.max_length}


def close_bodies(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Say of every body that unknown fields are refused, and that a source comes in one of two fields (a hook)."""
    for name, schema in result["components"]["schemas"].items():
        if name.endswith("Request"):
            schema["additionalProperties"] = False
        if name in {"SubmissionInputRequest", "AttemptInputRequest"}:
            schema["oneOf"] = [{"required": ["source"]}, {"required": ["files"]}]
    return result


@cache
def document() -> dict[str, Any]:
    """The whole OpenAPI document, made once per process: nothing in it depends on the request."""
    generated: dict[str, Any] = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]  # untyped
    return generated
