"""The entry point: bodies are bounded before anything looks at them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings

from portal.asgi import application

PIECE = b"x" * (1024 * 1024)


def answer_to(body_messages) -> list[dict]:
    """What the site sends to a request whose body comes in these messages."""
    sent = []

    async def receive():
        return next(body_messages)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/submissions/",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")],
    }
    # In a thread of its own: a browser that an earlier test drove leaves its event loop in this one.
    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, application(scope, receive, send)).result()
    return sent


def test_a_body_without_end_is_refused_before_it_fills_the_disk():
    pieces = iter(lambda: {"type": "http.request", "body": PIECE, "more_body": True}, None)
    taken = []

    def counted():
        for piece in pieces:
            taken.append(len(piece["body"]))
            yield piece

    start, _ = answer_to(counted())

    assert start["status"] == 413
    assert sum(taken) <= settings.BULK_MAX_BYTES + 2 * len(PIECE)


def test_a_body_that_stops_in_the_middle_gets_an_answer_that_says_so():
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    start, body = answer_to(messages)

    assert start["status"] == 408
    assert b"Send the request again" in body["body"]
