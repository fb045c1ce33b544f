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

from django.db import DataError, IntegrityError
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import parsers
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from evaluator.contract import (
    MOST_BYTES,
    MOST_COMPRESSED_BYTES,
    MOST_STATUS_BYTES,
    VERSION,
    ContractError,
    Delivery,
    Message,
    NodeStatus,
    Progress,
)
from portal.api.auth import IsNode, NodeKey
from portal.api.base import Resource, operation
from portal.core import metrics
from portal.core.errors import Refusal
from portal.dispatcher.leases import record_heartbeat
from portal.nodes.models import Node
from portal.submissions.actions import receive_delivery, receive_progress

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
_REMEDY = f"Bring site (version {VERSION}) and node to the same version."

_ENCODING = OpenApiParameter(
    "Content-Encoding", {"type": "string", "enum": ["gzip", "identity"]}, "header", description="How the body is sent."
)


class NodeBody(parsers.BaseParser):
    """JSON of bounded size, compressed with gzip or not, as bytes: the contract reads it."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
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
                message = "The body is encoded in a way that the site does not read."
                raise Refusal("Content-Encoding", other, message, "Send it as gzip, or as it is.", status=415)


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
        "", value, f"The message is larger than {most} bytes.", "Leave evidence out of the report.", status=413
    )


def _says(kind: type[Message]) -> dict[str, Any]:
    """What every one of these operations has in common; its body is `kind`, as the contract has it."""
    return {
        # The receipt names the message by its digest: no page of a proxy between passes for one.
        "answers": {
            200: OpenApiResponse({"$ref": "#/components/schemas/Receipt"}, description="Taken, and committed."),
        },
        "body": {"application/json": {"$ref": f"#/components/schemas/{kind.__name__}"}},
        "headers": (_ENCODING,),
        "refuses": (403, 409, 410),
    }


class NodeMessages(Resource):
    tag = "Nodes"
    authentication_classes = (NodeKey,)
    permission_classes = (IsNode,)
    parser_classes = (NodeBody,)
    throttle_classes = ()

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
    node: Any = request.auth
    action = request.parser_context["view"].action
    body = request.data if isinstance(request.data, bytes) else b""
    if kind is not Delivery and len(body) > MOST_STATUS_BYTES:
        raise _too_large(f"{len(body)} bytes", MOST_STATUS_BYTES)
    try:
        # PostgreSQL stores no NUL, and one must not cost a whole report.
        content = kind.from_json(body.replace(b"\\u0000", b"\\ufffd"))
    except ContractError as error:
        metrics.refused_messages.labels(action, "malformed").inc()
        raise Refusal(_field(str(error)), "", f"{error}.", _REMEDY) from error
    try:
        receive(node, content, timezone.now())
    except (DataError, IntegrityError, OverflowError) as error:
        # As an error of ours it would be sent again for ever.
        logger.warning("a message of node %s holds a value that cannot be stored: %s", node, error)
        metrics.refused_messages.labels(action, "malformed").inc()
        raise Refusal("", str(error)[:80], "The message holds a value that the site cannot store.", _REMEDY) from error
    return Response({"sha256": hashlib.sha256(body).hexdigest(), "version": VERSION})


def _field(text: str) -> str:
    inside, named = re.search(r" - at `\$\.?([^`]*)`$", text), re.search(r" field `([^`]*)`", text)
    return ".".join(found[1] for found in (inside, named) if found and found[1])
