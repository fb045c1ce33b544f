"""The entry point: bodies are bounded before anything looks at them, and nobody works for a visitor who has left."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path

from portal.asgi import application

PIECE = b"x" * (1024 * 1024)
WAIT_S = 20
seen: list[object] = []
began, go_on = threading.Event(), threading.Event()


def slow(_request):
    """A page that is made while its visitor leaves."""
    began.set()
    go_on.wait(WAIT_S)
    seen.append(threading.current_thread().name)
    return HttpResponse("late")


def endless(_request):
    """A download without end that notes when it is closed, and by what thread its pieces are made."""

    async def pieces():
        for number in count():
            seen.append(await sync_to_async(threading.get_ident)())
            yield b"%d\n" % number

    response = StreamingHttpResponse(pieces())
    response._resource_closers.append(lambda: seen.append("closed"))  # noqa: SLF001 - as FileResponse closes its file
    return response


urlpatterns = [path("slow/", slow), path("endless/", endless)]


def exchange(receive, send, *, method="POST", address="/api/v1/submissions/") -> None:
    """One request through the whole site."""
    scope = {
        "type": "http",
        "method": method,
        "path": address,
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")],
    }
    # In a thread of its own: a browser that an earlier test drove leaves its event loop in this one.
    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, application(scope, receive, send)).result()


def answer_to(body_messages) -> list[dict]:
    """What the site sends to a request whose body comes in these messages."""
    sent = []

    async def receive():
        return next(body_messages)

    async def send(message):
        sent.append(message)

    exchange(receive, send)
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


def leaves_after(condition, *, address) -> list[dict]:
    """What the site sends to a visitor who leaves once `condition` holds, asked of what has been sent so far."""
    sent, body, changed = [], [{"type": "http.request", "body": b""}], asyncio.Event()

    async def receive():
        if body:
            return body.pop()
        while not await condition(sent):
            await changed.wait()
            changed.clear()
        go_on.set()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        changed.set()

    exchange(receive, send, method="GET", address=address)
    return sent


@pytest.fixture
def own_pages(settings):
    """The pages of this module, nothing seen yet."""
    settings.ROOT_URLCONF = __name__
    seen.clear()
    began.clear()
    go_on.clear()


@pytest.mark.usefixtures("own_pages")
def test_nothing_is_sent_to_a_visitor_who_left_while_the_page_was_made():
    async def page_is_under_way(_sent):
        return await asyncio.to_thread(began.wait, WAIT_S)

    assert leaves_after(page_is_under_way, address="/slow/") == []
    assert seen[0].startswith("request-")


@pytest.mark.usefixtures("own_pages")
def test_a_download_ends_and_is_closed_when_its_visitor_leaves():
    async def three_pieces_came(sent):
        return len(sent) > 3

    start, *pieces = leaves_after(three_pieces_came, address="/endless/")

    assert start["status"] == 200
    assert b"".join(piece["body"] for piece in pieces).startswith(b"0\n1\n2\n")
    assert seen[-1] == "closed"
    assert len({*seen[:-1]}) == 1
