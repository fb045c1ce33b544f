"""The threads in which requests are answered, each with a connection to the database that outlives the request.

Django gives every ASGI request a thread of its own, and Django's connections belong to threads: with PostgreSQL each
request would open a connection and close it again. Here a request borrows a thread once it is complete, and the next
one borrows it after that (docs/decisions/0030-connections-that-outlive-requests.md).
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from asgiref.sync import ThreadSensitiveContext
from django.db import close_old_connections


class RequestThreads:
    """A bounded number of threads for the requests of one event loop; further requests wait for a free one."""

    def __init__(self, number: int) -> None:
        # The last one used comes first: under little load a few connections serve all, and stay young.
        self._free: asyncio.LifoQueue[ThreadPoolExecutor] = asyncio.LifoQueue()
        for place in range(number):
            self._free.put_nowait(ThreadPoolExecutor(1, thread_name_prefix=f"request-{place}"))
        self._going_back: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Run the synchronous code of this block in one thread, whichever is free."""
        thread = await self._free.get()
        try:
            async with ThreadSensitiveContext(executor=thread):
                yield
        finally:
            # A task of its own: a visitor who left has cancelled ours.
            returning = asyncio.ensure_future(self._give_back(thread))
            self._going_back.add(returning)
            returning.add_done_callback(self._going_back.discard)

    async def _give_back(self, thread: ThreadPoolExecutor) -> None:
        """Wait until the thread has nothing left to do: a view goes on although its visitor has left."""
        try:
            await asyncio.get_running_loop().run_in_executor(thread, close_old_connections)
        finally:
            self._free.put_nowait(thread)
