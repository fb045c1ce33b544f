"""What nodes say: heartbeats, progress and reports, each with the key of its node.

The answer of 200 comes after everything is committed, and is the receipt. A message that comes again changes nothing
and has the same answer.
"""

import hashlib
import logging
import re
import zlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import IO, Any, TypeVar

from django.contrib.auth.models import AnonymousUser
from django.db import DataError, IntegrityError
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import parsers
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import ParseError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from evaluator.contract import (
    MOST_BYTES,
    MOST_COMPRESSED_BYTES,
    MOST_STATUS_BYTES,
    ContractError,
    Delivery,
    Message,
    NodeStatus,
    Progress,
)
from portal.api.endpoint import Endpoint
from portal.api.faults import TokenRefused
from portal.api.operations import Answer, operation, operation_of
from portal.core import metrics
from portal.core.errors import Refusal
from portal.dispatcher.heartbeats import record_heartbeat
from portal.nodes.actions import authenticate
from portal.nodes.models import Node
from portal.submissions.actions import receive_delivery, receive_progress

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

_NAME = {"type": "string", "pattern": "^[a-z0-9-]{1,60}$"}
_ENCODING = OpenApiParameter(
    "Content-Encoding", {"type": "string", "enum": ["gzip", "identity"]}, "header", description="How the body is sent."
)


class NodeKey(BaseAuthentication):
    """Takes the key of the node that the address names."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, Node] | None:
        """Nobody's account, and the node.

        Raises:
            TokenRefused: the key is not that node's.
            Refusal: the node was revoked.
        """
        scheme, _, key = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        name = request.parser_context["kwargs"]["name"]
        try:
            return AnonymousUser(), authenticate(name, key.strip())
        except Refusal as refusal:
            metrics.refused_messages.labels("message", "revoked" if refusal.status == 410 else "wrong key").inc()
            if refusal.status != 401:
                raise
            raise TokenRefused(refusal) from refusal

    def authenticate_header(self, _request: Request) -> str:
        """The challenge of a 401."""
        return 'Bearer realm="pkb node"'


class IsNode(BasePermission):
    """Lets nodes in, and nobody else."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the request came with a node's key. A method that the address does not take is told so."""
        return operation_of(view) is None or isinstance(request.auth, Node)


class NodeBody(parsers.BaseParser):
    """JSON of bounded size, compressed with gzip or not, as bytes: the contract reads it."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002 - REST framework's signature
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The JSON's bytes; raises Refusal where it is too large, ParseError where it is no gzip."""
        request: Request = (parser_context or {})["request"]
        length = int(request.META.get("CONTENT_LENGTH") or 0)
        if length > MOST_COMPRESSED_BYTES:
            raise _too_large(f"{length} bytes", MOST_COMPRESSED_BYTES)
        body: bytes = stream.read()
        match request.headers.get("Content-Encoding", "identity").lower():
            case "identity":
                return body
            case "gzip":
                return _unpacked(body)
            case other:
                raise Refusal(
                    field="Content-Encoding",
                    value=other,
                    message="The body is encoded in a way that the site does not read.",
                    remedy="Send it as gzip, or as it is.",
                    status=415,
                )


def _unpacked(body: bytes) -> bytes:
    """What a gzip holds, read no further than the limit."""
    reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        content = reader.decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise ParseError(f"The body is not gzip: {error}.") from error
    if len(content) > MOST_BYTES:
        raise _too_large(f"more than {MOST_BYTES} bytes", MOST_BYTES)
    if not reader.eof or reader.unused_data:
        raise ParseError("The body is not one complete gzip.")
    return content


def _too_large(value: str, most: int) -> Refusal:
    metrics.refused_messages.labels("message", "too large").inc()
    return Refusal(
        field="",
        value=value,
        message=f"The message is larger than {most} bytes.",
        remedy="Leave evidence out of the report.",
        status=413,
    )


class Receipted(Answer):
    """The site's receipt, which names the message by its digest: no page of a proxy between passes for one."""

    def described(self, status: int) -> dict[Any, Any]:
        """The contract's own schema."""
        return {status: OpenApiResponse({"$ref": "#/components/schemas/Receipt"}, description="Taken, and committed.")}


def _says(kind: type[Message]) -> dict[str, Any]:
    """What every one of these operations has in common; its body is `kind`, as the contract has it."""
    return {
        "answer": Receipted(),
        "body": {"application/json": {"$ref": f"#/components/schemas/{kind.__name__}"}},
        "headers": (_ENCODING,),
        "refuses": (403, 409, 410),
    }


class NodeMessages(Endpoint):
    """What one node says."""

    tag = "Nodes"
    authentication_classes = (NodeKey,)
    permission_classes = (IsNode,)
    parser_classes = (NodeBody,)
    throttle_classes = ()
    is_private = True
    path_parameters = (OpenApiParameter("name", _NAME, "path", description="The node's name."),)

    @operation("sendHeartbeat", "Send a node's heartbeat", **_says(NodeStatus))
    def heartbeat(self, request: Request, **_: str) -> Response:
        """What the node offers and runs. It keeps the leases of what it runs."""
        return _received(request, NodeStatus, record_heartbeat)

    @operation("sendProgress", "Send the progress of an evaluation", **_says(Progress))
    def progress(self, request: Request, **_: str) -> Response:
        """How far the node is with an evaluation. It keeps the lease."""
        return _received(request, Progress, receive_progress)

    @operation("sendReport", "Send the report on an evaluation", **_says(Delivery))
    def report(self, request: Request, **_: str) -> Response:
        """The report that ends an evaluation, under the lease on it.

        Refused are a lease of another node (403), one that this site never gave to this node (409), and a report that
        is about something else than was sent (422).
        """
        return _received(request, Delivery, receive_delivery)


def _received(request: Request, kind: type[M], receive: Callable[[Node, M, datetime], object]) -> Response:
    """The receipt for a message that `receive` has taken; raises Refusal."""
    node: Any = request.auth
    said_as = request.parser_context["view"].action
    body = request.data if isinstance(request.data, bytes) else b""
    if kind is not Delivery and len(body) > MOST_STATUS_BYTES:
        raise _too_large(f"{len(body)} bytes", MOST_STATUS_BYTES)
    try:
        # PostgreSQL stores no NUL, and one must not cost a whole report.
        said = kind.from_json(body.replace(b"\\u0000", b"\\ufffd"))
    except ContractError as error:
        metrics.refused_messages.labels(said_as, "malformed").inc()
        raise Refusal(
            field=_field(str(error)),
            value="",
            message=f"{error}.",
            remedy="Bring site and node to the same version.",
        ) from error
    try:
        receive(node, said, timezone.now())
    except (DataError, IntegrityError, OverflowError) as error:
        # As an error of ours it would be sent again for ever.
        logger.warning("a message of node %s holds a value that cannot be stored: %s", node, error)
        metrics.refused_messages.labels(said_as, "malformed").inc()
        raise Refusal(
            field="",
            value=str(error)[:80],
            message="The message holds a value that the site cannot store.",
            remedy="Bring site and node to the same version.",
        ) from error
    return Response({"sha256": hashlib.sha256(body).hexdigest()})


def _field(text: str) -> str:
    """The field that an error of the contract is about."""
    inside, named = re.search(r" - at `\$\.?([^`]*)`$", text), re.search(r" field `([^`]*)`", text)
    return ".".join(found[1] for found in (inside, named) if found and found[1])
