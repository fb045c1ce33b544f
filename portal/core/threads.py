"""The threads in which requests are answered, each with a connection to the database that outlives the request.

Django gives every ASGI request a thread of its own, and Django's connections belong to threads: with PostgreSQL each
request would open a connection and close it again. Here a request borrows a thread once it is complete, and the next
one borrows it after that (docs/decisions/0030-connections-that-outlive-requests.md).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from django.db import close_old_connections

Result = TypeVar("Result")


class NotWanted(Exception):
    """Nobody waits for a call any more that has not begun."""


class RequestThreads:
    """A bounded number of threads for the requests of one event loop; further requests wait for a free one."""

    def __init__(self, number: int) -> None:
        # The last one used comes first: under little load a few connections serve all, and stay young.
        self._free: asyncio.LifoQueue[ThreadPoolExecutor] = asyncio.LifoQueue()
        for place in range(number):
            self._free.put_nowait(ThreadPoolExecutor(1, thread_name_prefix=f"request-{place}"))

    async def run(self, call: Callable[[], Result], *, unless: Callable[[], bool] = lambda: False) -> Result:
        """What `call` returns or raises, from one of the threads, with the context variables of this task.

        A call that has begun goes on although its visitor has left and this task is cancelled. Its thread is free when
        it has ended.

        Raises:
            NotWanted: `unless` was true when a thread was free.
        """
        loop = asyncio.get_running_loop()
        thread = await self._free.get()
        if unless():
            self._free.put_nowait(thread)
            raise NotWanted
        called = thread.submit(copy_context().run, _with_tidy_connections, call)
        called.add_done_callback(lambda _: _soon(loop, partial(self._free.put_nowait, thread)))
        return await asyncio.wrap_future(called)


def _with_tidy_connections(call: Callable[[], Result]) -> Result:
    try:
        return call()
    finally:
        close_old_connections()


def _soon(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended, and nobody waits for a thread any more
        loop.call_soon_threadsafe(action)
