"""The ASGI entry point: Django for pages and API, and what streams beside it.

A connection costs the server a socket until its request is complete, however slowly it comes. Only then does the
request take one of `settings.WEB_REQUESTS` threads; so neither silent visitors nor many readers of event
streams keep others waiting. Streams that stay open do not go through Django's handler, which would keep a thread and a
database connection for each of them.
"""

import asyncio
import gc
import io
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import IO, Any

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.http.response import HttpResponseBase
from django.urls import get_resolver, set_script_prefix

from evaluator.contract import read_fields
from portal.core.bodies import RETRY_AFTER_S, Bodies, BodyRefused, Receive, Scope
from portal.core.database_outage import is_database_away
from portal.core.errors import Refusal
from portal.core.threads import NotWanted, RequestThreads
from problems import registry

Message = Mapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_OF_NODES = re.compile(r"/api/v1/nodes/(?P<name>[a-z0-9-]{1,60})/(report|progress|heartbeat)/")


class Handler(ASGIHandler):
    """Django's handler, with so many requests at work at a time and bodies of a bounded size."""

    def __init__(self) -> None:
        super().__init__()
        self._threads = RequestThreads(settings.WEB_REQUESTS)
        # What comes of a run is worked on for long: it leaves most threads to others.
        self._bodies = Bodies(self._account, most_runs=max(1, settings.WEB_REQUESTS // 4))

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - Django's signature
        """Load it as synchronous code, which all of it is, with the views."""
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless nobody waits for it; a body that is too large is not read to its end."""
        try:
            await super().__call__(scope, receive, send)
        except NotWanted:
            pass
        except BodyRefused as refusal:
            await _refuse(send, refusal, is_api=scope["path"].startswith("/api/"))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the request, answer it in a thread once there is one, and send the response unless the visitor left.

        Django's own goes back and forth between event loop and threads four times for each request, which takes 2 ms of
        a processor. This one goes once.
        """
        # The server cancels this task soon after its visitor has left, while a thread may still read the body.
        response, leaving = await asyncio.shield(asyncio.create_task(self._answer(scope, receive)))
        try:
            if response.streaming:
                await self._stream(response, send, leaving)
            elif not leaving.done():
                await self.send_response(response, send)
        finally:
            leaving.cancel()

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[HttpResponseBase, "asyncio.Task[None]"]:
        """The response to a request, and what ends when its visitor leaves; its body counts until then."""
        async with self._bodies.of(scope, receive) as limited:
            body = await self.read_body(limited)
            leaving = asyncio.create_task(_left(receive))
            try:
                return await self._threads.run(partial(self._respond, scope, body), unless=leaving.done), leaving
            except BaseException:
                leaving.cancel()
                raise
            finally:
                body.close()

    async def _account(self, scope: Scope) -> int | None:
        """The account whose session or token the request has, or the node whose key it has."""
        return await self._threads.run(partial(self._find_account, scope))

    def _find_account(self, scope: Scope) -> int | None:
        request, _ = self.create_request(scope, io.BytesIO())
        if request is None:
            return None
        try:
            if node := _OF_NODES.fullmatch(request.path):
                return authenticate(node["name"], request.headers.get("Authorization", "").partition(" ")[2].strip()).pk
            if found := BearerAuthentication().authenticate(Request(request)):
                return found[0].pk
            request.session = SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
            return get_user(request).pk
        except CredentialRefused:
            return None
        except Refusal as refusal:
            raise BodyRefused(refusal.status, f"{refusal.sentences}") from refusal
        except Exception as error:
            if is_database_away(error):
                raise BodyRefused(503, "The site's database does not respond. Send this again in a moment.") from error
            raise

    def _respond(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """The response to a complete request, from the thread that this runs in."""
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        response: HttpResponseBase | None = refusal if request is None else self.get_response(request)
        assert response is not None
        response._handler_class = self.__class__  # type: ignore[attr-defined]  # noqa: SLF001 - as Django's handlers do
        if not response.streaming:
            response.close()  # its content stays; what it held is released where it was made
        return response

    async def _stream(self, response: HttpResponseBase, send: Send, leaving: "asyncio.Task[None]") -> None:
        """Send a response piece by piece until its end or until the visitor leaves."""
        sending = asyncio.create_task(self.send_response(response, send))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()
            await asyncio.wait({sending})
            await sync_to_async(response.close)()


async def _left(receive: Receive) -> None:
    """Wait until the visitor closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(send: Send, refusal: BodyRefused, *, is_api: bool) -> None:
    text, media_type = f"{refusal.text}\n", b"text/plain; charset=utf-8"
    if is_api:
        details = problem_details.details(refusal.status, refusal.text)
        text, media_type = json.dumps(details), problem_details.MEDIA_TYPE.encode()
    headers = [(b"content-type", media_type), (b"connection", b"close")]
    if refusal.status in (429, 503):
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="pkb"'))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


def _with_streams(pages: Application) -> Application:
    """Event streams below their prefix, metrics on a port of their own, and `pages` everywhere else."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = pages
        if scope["type"] == "http" and metrics_page.is_for_metrics(scope):
            chosen = metrics_page.application
        elif scope["type"] == "http" and scope["path"].startswith(live_links.PREFIX):
            chosen = live.application
        await chosen(scope, receive, send)

    return application


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup(set_prefix=False)

from django.contrib.auth import get_user  # noqa: E402 - models can be imported from here on
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from rest_framework.request import Request  # noqa: E402

from portal.api import problem_details  # noqa: E402
from portal.api.auth import BearerAuthentication, CredentialRefused  # noqa: E402
from portal.catalog import highlighting, markdown, rooflines  # noqa: E402
from portal.core import live_links  # noqa: E402
from portal.manual.search import find as find_in_manual  # noqa: E402
from portal.nodes.actions import authenticate  # noqa: E402
from portal.operations import metrics_page  # noqa: E402
from portal.pages import live  # noqa: E402


def _warm_up() -> None:
    """Make what the first visitor would wait for: addresses with their views, and what problems' pages show for good.

    It takes about three seconds of a processor, most of it for statements, references and the manual as HTML. The least
    work of every problem on every profile takes 0.1 s of it.
    """
    get_resolver().url_patterns  # noqa: B018 - reading it imports the views
    read_fields()
    for problem in registry.problems():
        registry.revision(problem.slug)
        markdown.render(registry.statement(problem.slug))
        highlighting.reference_rows(problem.slug)
    for profile in rooflines.gpu_profiles():
        rooflines.points(profile.name, {})
    find_in_manual("kernel", limit=1)


def _set_aside() -> None:
    """Take what a process keeps for its whole life out of the garbage collector's passes.

    It is almost 150,000 objects. A full pass over them held a request up for more than 100 ms, about every 60th
    request of a large page.
    """
    gc.collect()
    gc.freeze()


_warm_up()
_set_aside()
application = _with_streams(Handler())
