"""The OpenAPI document: what operations may refuse, and the report's schema straight from the contract."""

from collections.abc import Iterable, Mapping
from functools import cache
from inspect import cleandoc
from typing import Any

import msgspec
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerFieldExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from evaluator.contract import Delivery, EvaluationReport, NodeStatus, Progress, Receipt
from evaluator.hardware import profiles
from portal.api.problem_details import DATABASE_AWAY, KINDS, MEDIA_TYPE, Kind

_REFERENCES = "#/components/schemas/{name}"


NUMBER = {"type": "integer", "format": "int64", "minimum": 0}
"""The `id` of what is numbered, in an address."""


LOCATION = OpenApiParameter(
    "Location", OpenApiTypes.URI, "header", response=[201], description="The address of what was created."
)


def idempotency_key(description: str) -> OpenApiParameter:
    """The header by which a call is recognised as a repetition."""
    form = {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[ -~]+$"}
    return OpenApiParameter("Idempotency-Key", form, "header", description=description)


class FieldErrorOutput(serializers.Serializer[Any]):
    """One input at fault."""

    field = serializers.CharField(allow_blank=True, help_text="The field's name; empty for the request as a whole.")
    value = serializers.CharField(allow_blank=True, help_text="The value, shortened.")
    message = serializers.CharField(help_text="The error.")
    remedy = serializers.CharField(help_text="The remedy.")


class ProblemDetailsOutput(serializers.Serializer[Any]):
    """An error as RFC 9457 has it."""

    type = serializers.CharField(help_text="The address that explains this kind of error.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    request_id = serializers.CharField(
        allow_blank=True, help_text="With this number the operator finds the request in the logs."
    )
    errors = FieldErrorOutput(many=True)  # type: ignore[assignment]  # the metaclass takes it out of the class


_EXAMPLES: Mapping[int, tuple[str, tuple[str, str, str, str] | None]] = {
    400: ("The body is not JSON: Expecting value: line 1 column 1 (char 0).", None),
    401: (
        "The token expired at 2026-03-01 09:00 UTC. Create a new one on your account page.",
        (
            "token",
            "pkb_Zm9vYmFy...",
            "The token expired at 2026-03-01 09:00 UTC.",
            "Create a new one on your account page.",
        ),
    ),
    403: ("This token lacks the scope 'submit'. Create a token with the scope 'submit' on your account page.", None),
    404: ("There is nothing at this address. /api/v1/ lists every address.", None),
    410: ("Node acme-1 was revoked on 2026-03-01. It gets no more work. Stop it.", None),
    411: ("The body came in chunks, without a Content-Length. Send it in one piece, with a Content-Length.", None),
    409: ("This evaluation has already ended. There is nothing left to cancel.", None),
    413: ("The files are larger than 512 KB in all. Keep them within 512 KB.", None),
    415: ('Unsupported media type "text/plain" in request. Send application/json or multipart/form-data.', None),
    422: (
        "There is no such profile. Choose one of cpux2, cpux4, h200x8.",
        ("profile", "h900x8", "There is no such profile.", "Choose one of cpux2, cpux4, h200x8."),
    ),
    429: ("Too many requests without a token. Try again in 12 seconds, or use a token.", None),
    503: (DATABASE_AWAY, None),
    500: ("The site failed. The failure was logged. Try again later.", None),
}


def _example(kind: Kind) -> OpenApiExample:
    detail, entry = _EXAMPLES[kind.status]
    names = ("field", "value", "message", "remedy")
    value = {
        "type": f"/api/v1/#{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "request_id": "5f0c6e3bd2a44c0c9a0b8d6e1f7a2b3c",
        "errors": [dict(zip(names, entry, strict=True))] if entry else [],
    }
    return OpenApiExample(
        kind.title, value=value, response_only=True, media_type=MEDIA_TYPE, status_codes=[str(kind.status)]
    )


# Any call may meet a bad token, a used-up rate, a wrong method, a failure of ours or a database that is away.
_ALWAYS = (401, 429, 500, 503)


def refusals(found: Iterable[int]) -> dict[Any, Any]:
    """The responses of an operation that refuses with these statuses, and with those that every call may meet."""
    responses = {}
    for status in sorted({*found, *_ALWAYS}):
        kind = KINDS[status]
        responses[status, MEDIA_TYPE] = OpenApiResponse(
            ProblemDetailsOutput, description=kind.meaning, examples=[_example(kind)]
        )
    return responses


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

    target_class = "portal.api.authentication.BearerAuthentication"
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
