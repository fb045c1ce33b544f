"""The entry point: bodies are bounded before anything looks at them, and nobody works for a visitor who has left."""

import asyncio
import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from itertools import count

import pytest
from asgiref.sync import sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path, reverse
from django.views.decorators.csrf import csrf_exempt

from portal.accounts.actions import create_token
from portal.accounts.models import User
from portal.asgi import application
from portal.core.bodies import MOST_HELD_BYTES, RUN_BYTES, USUAL_BYTES, Bodies, BodyRefused

PIECE = b"x" * (1024 * 1024)
HOST = (b"host", b"localhost")
CHUNKED = (b"transfer-encoding", b"chunked")
WAIT_S = 20
seen: list[object] = []
began, go_on, ended = threading.Event(), threading.Event(), threading.Event()


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


def reading(request):
    """A page that reads its body when its visitor has long left."""
    began.set()
    go_on.wait(WAIT_S)
    seen.append(request.read())
    ended.set()
    return HttpResponse("late")


urlpatterns = [path("slow/", slow), path("endless/", endless), path("reading/", csrf_exempt(reading))]


def exchange(receive, send, *, method="POST", address="/api/v1/submissions/", headers=(CHUNKED,)) -> None:
    """One request through the whole site."""
    scope = {
        "type": "http",
        "method": method,
        "path": address,
        "query_string": b"",
        "headers": [HOST, *headers],
    }
    in_a_loop_of_its_own(application(scope, receive, send))


def in_a_loop_of_its_own(coroutine):
    """A browser that an earlier test drove leaves its event loop in this thread."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, coroutine).result()


def answer_to(body_messages, **request) -> list[dict]:
    """What the site sends to a request whose body comes in these messages."""
    sent = []

    async def receive():
        return next(body_messages)

    async def send(message):
        sent.append(message)

    exchange(receive, send, **request)
    return sent


def taken_of_an_endless_body(**request) -> tuple[int, int]:
    """The status of the answer to a body without end, and how many bytes the site took of it."""
    taken = []

    def pieces():
        while True:
            taken.append(len(PIECE))
            yield {"type": "http.request", "body": PIECE, "more_body": True}

    start, _ = answer_to(pieces(), **request)
    return start["status"], sum(taken)


@pytest.fixture
def tokens(transactional_db):
    """The headers of two authors with a token."""

    def token_of(name):
        author = User.objects.create_user(name, password="a long pass phrase")
        _, secret = create_token(author, name="t", scopes=["runs:write"], lifetime_days=1)
        return (b"authorization", f"Bearer {secret}".encode())

    return token_of("alice"), token_of("bob")


IMPORT = "/api/v1/runs/import/"
LARGE = (b"content-length", b"200000000")


def test_a_body_without_end_is_refused_before_it_fills_the_disk(tokens):
    assert taken_of_an_endless_body(headers=(CHUNKED, tokens[0])) == (413, USUAL_BYTES + len(PIECE))
    assert taken_of_an_endless_body(headers=(CHUNKED, tokens[0]), address=IMPORT) == (413, RUN_BYTES + len(PIECE))


@pytest.mark.usefixtures("transactional_db")
@pytest.mark.parametrize("address", ["/accounts/sign-in/", "/nosuch/", "/api/v1/submissions/", IMPORT])
def test_of_a_stranger_no_large_body_is_read(address):
    lies = (b"authorization", b"Bearer pkb_" + b"x" * 40), (b"cookie", b"sessionid=abcdefghijklmnopqrstuvwxyz012345")
    for told in ((), lies):
        assert taken_of_an_endless_body(address=address, headers=(CHUNKED, *told)) == (401, len(PIECE))
    announced = taken_of_an_endless_body(address=address, headers=(LARGE,))
    assert announced == (401 if address == IMPORT else 413, 0)


def test_a_session_may_send_what_a_form_holds(transactional_db, client):
    client.force_login(User.objects.create_user("carol", password="a long pass phrase"))
    cookie = (b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode())
    assert taken_of_an_endless_body(address="/accounts/", headers=(CHUNKED, cookie)) == (413, USUAL_BYTES + len(PIECE))


def test_what_is_refused_says_why_in_the_form_of_its_address(tokens):
    start, body = answer_to(iter(()), headers=(LARGE,), address=IMPORT)
    headers = dict(start["headers"])
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"www-authenticate"] == b'Bearer realm="pkb"'
    assert "send a valid token" in json.loads(body["body"])["detail"]
    start, body = answer_to(iter(()), headers=(LARGE, tokens[0]), address="/accounts/")
    assert start["status"] == 413
    assert body["body"] == b"The body is larger than the 5 MiB that this address accepts.\n"


def test_one_account_uploads_one_run_at_a_time_and_all_together_a_few():
    bodies = Bodies(account_in_the_path, most_runs=2)

    async def uploads():
        async with AsyncExitStack() as under_way:
            for number in (1, 2):
                await under_way.enter_async_context(bodies.of(announcing(number), never))
            for number in (1, 3):
                with pytest.raises(BodyRefused) as refusal:
                    await under_way.enter_async_context(bodies.of(announcing(number), never))
                yield refusal.value.status
        async with bodies.of(announcing(1), never):
            yield "free again"

    async def outcomes():
        return [outcome async for outcome in uploads()]

    assert in_a_loop_of_its_own(outcomes()) == [429, 503, "free again"]


def test_all_bodies_together_are_bounded():
    bodies = Bodies(account_in_the_path, most_runs=2)

    async def filled() -> tuple[int, int]:
        async with AsyncExitStack() as under_way:
            number = 0
            while True:
                limited = await under_way.enter_async_context(bodies.of(announcing(1, size=len(PIECE)), piece))
                try:
                    await limited()
                except BodyRefused as refusal:
                    return refusal.status, number
                number += 1

    assert in_a_loop_of_its_own(filled()) == (503, MOST_HELD_BYTES // len(PIECE))
    assert in_a_loop_of_its_own(filled()) == (503, MOST_HELD_BYTES // len(PIECE))  # the first ones were given back


async def account_in_the_path(scope) -> int:
    return scope["account"]


async def never(*_message):
    raise AssertionError


async def piece():
    return {"type": "http.request", "body": PIECE, "more_body": True}


def announcing(account, *, size=100_000_000):
    """The scope of a request of an account."""
    return {"path": IMPORT, "account": account, "headers": [(b"content-length", str(size).encode())]}


def test_runs_are_uploaded_where_the_site_says(settings):
    run = {"run_id": uuid.uuid4()}
    for address in (
        reverse("runs:import"),
        reverse("runs:fill", kwargs=run),
        reverse("api:run-import"),
        reverse("api:run-import-preview"),
        reverse("api:bulk-attempts", kwargs=run),
    ):
        most = in_a_loop_of_its_own(largest_announced(address))
        assert most == RUN_BYTES >= settings.BULK_MAX_BYTES


async def largest_announced(address) -> int:
    """The largest body that an account may announce for an address."""
    bodies = Bodies(account_in_the_path, most_runs=1)
    for size in (RUN_BYTES, USUAL_BYTES):
        with suppress(BodyRefused):
            async with bodies.of({**announcing(1, size=size), "path": address}, never):
                return size
    return 0


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
def own_pages(settings, transactional_db):
    """The pages of this module, nothing seen yet."""
    settings.ROOT_URLCONF = __name__
    seen.clear()
    for event in (began, go_on, ended):
        event.clear()


@pytest.mark.usefixtures("own_pages")
def test_nothing_is_sent_to_a_visitor_who_left_while_the_page_was_made():
    async def page_is_under_way(_sent):
        return await asyncio.to_thread(began.wait, WAIT_S)

    assert leaves_after(page_is_under_way, address="/slow/") == []
    assert seen[0].startswith("request-")


@pytest.mark.usefixtures("own_pages")
def test_a_body_is_there_until_the_thread_that_reads_it_has_ended():
    async def cancelled_while_it_reads():
        messages = [{"type": "http.request", "body": b"all of it"}]

        async def receive():
            return messages.pop() if messages else await asyncio.Event().wait()

        scope = {"type": "http", "method": "POST", "path": "/reading/", "query_string": b"", "headers": [HOST]}
        answering = asyncio.create_task(application(scope, receive, never))
        await asyncio.to_thread(began.wait, WAIT_S)
        answering.cancel()  # as gunicorn does a moment after a visitor has left
        await asyncio.wait({answering})
        go_on.set()
        await asyncio.to_thread(ended.wait, WAIT_S)

    in_a_loop_of_its_own(cancelled_while_it_reads())

    assert seen == [b"all of it"]


@pytest.mark.usefixtures("own_pages")
def test_a_download_ends_and_is_closed_when_its_visitor_leaves():
    async def three_pieces_came(sent):
        return len(sent) > 3

    start, *pieces = leaves_after(three_pieces_came, address="/endless/")

    assert start["status"] == 200
    assert b"".join(piece["body"] for piece in pieces).startswith(b"0\n1\n2\n")
    assert seen[-1] == "closed"
    assert len({*seen[:-1]}) == 1
