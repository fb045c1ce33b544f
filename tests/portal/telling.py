"""What nodes of tests say to the site: messages at their real addresses, with a key."""

import gzip

from django.http import HttpResponse
from django.test import Client

from evaluator.contract import Delivery, Message, NodeStatus, Progress

_KINDS = {NodeStatus: "heartbeat", Progress: "progress", Delivery: "report"}


def tell(message: Message, *, key: str, node: str) -> HttpResponse:
    """The site's answer to a message of `node`."""
    return post(_KINDS[type(message)], gzip.compress(message.to_json().encode()), key=key, node=node)


def post(kind: str, body: bytes, *, key: str, node: str, **headers: str) -> HttpResponse:
    """The site's answer to any bytes, sent as a gzip unless the headers say otherwise."""
    return Client(headers={"Authorization": f"Bearer {key}", "Content-Encoding": "gzip"} | headers).post(
        f"/api/v1/nodes/{node}/{kind}/", body, content_type="application/json"
    )
