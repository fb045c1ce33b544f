"""How much of a request's body is taken before it is known who sends it, and of all bodies together."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

STRANGERS_BYTES = 64 * 1024
"""Of somebody not signed in: more than any form for them holds."""
USUAL_BYTES = 5 * 1024 * 1024
"""Of an account, where it uploads no run: what Django accepts of a form or of JSON, and the borders of its parts."""
RUN_BYTES = 257 * 1024 * 1024
"""Of a whole run: settings.BULK_MAX_BYTES and the fields beside it."""
MOST_HELD_BYTES = 256 * 1024 * 1024
"""Of all bodies together, beside the runs that are uploaded."""
RETRY_AFTER_S = 30

_RUNS = re.compile(r"(/api/v1)?/runs/(import|import/preview|[0-9a-f-]{36}/(attempts/bulk|fill))/")


class BodyRefused(Exception):
    """A body that is not read, or not to its end: the status and the sentences that say why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(kw_only=True)
class _Body:
    """One body while it comes and until its request is answered; `run_of` is the account that uploads a run with it."""

    scope: Scope
    taken: int = 0
    most: int = 0
    run_of: int | None = None


class Bodies:
    """The bodies of the requests that a web process has not answered yet.

    `account` finds whose session or token a request has; at most `most_runs` runs are uploaded at a time.
    """

    def __init__(self, account: Callable[[Scope], Awaitable[int | None]], *, most_runs: int) -> None:
        self._account = account
        self._most_runs = most_runs
        self._uploading: set[int | None] = set()
        self._held = 0

    @asynccontextmanager
    async def of(self, scope: Scope, receive: Receive) -> AsyncIterator[Receive]:
        """The messages with the body of one request, until it is answered; both raise BodyRefused."""
        body = _Body(scope=scope)

        async def limited() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                # Also where the body paused for too long: its sender is still there to read the answer.
                raise BodyRefused(408, "The body is incomplete. Send the request again.")
            size = len(message.get("body", b""))
            body.taken += size
            self._held += size
            await self._admit(body, body.taken)
            return message

        try:
            announced = dict(scope["headers"]).get(b"content-length", b"")
            await self._admit(body, int(announced[:18]) if announced.isdigit() else 0)
            yield limited
        finally:
            self._held -= body.taken
            self._uploading.discard(body.run_of)

    async def _admit(self, body: _Body, size: int) -> None:
        """Go on with a body that announces `size` or has reached it, or raise BodyRefused."""
        if size > body.most:
            body.most = await self._most(body, size)
        if body.run_of is None and self._held > MOST_HELD_BYTES + len(self._uploading) * RUN_BYTES:
            raise BodyRefused(503, "The site is taking too many bodies. Send this one again in a moment.")

    async def _most(self, body: _Body, size: int) -> int:
        if size <= STRANGERS_BYTES:
            return STRANGERS_BYTES
        most = RUN_BYTES if _RUNS.fullmatch(body.scope["path"]) else USUAL_BYTES
        if size > most:
            raise BodyRefused(413, f"The body is larger than the {most // 2**20} MiB that this address accepts.")
        if (account := await self._account(body.scope)) is None:
            limit = f"more than {STRANGERS_BYTES // 1024} KiB"
            raise BodyRefused(401, f"Nobody is signed in, and the body has {limit}. Sign in, or send a valid token.")
        if size <= USUAL_BYTES:
            return USUAL_BYTES
        if account in self._uploading:
            raise BodyRefused(429, "Another upload of this account is under way. Send this one after it has ended.")
        if len(self._uploading) >= self._most_runs:
            raise BodyRefused(503, "The site is taking other uploads. Send this one again in a moment.")
        body.run_of = account
        self._uploading.add(account)
        return RUN_BYTES
