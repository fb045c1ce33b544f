"""Requests borrow threads: what one leaves behind the next one finds, and who leaves early takes no thread with it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import sync_to_async

from portal.request_threads import RequestThreads

WAIT_S = 20


def in_a_loop_of_its_own(coroutine):
    """A browser that an earlier test drove leaves its event loop in this thread."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, coroutine).result()


def test_the_next_request_finds_the_thread_of_the_last_one():
    async def answer() -> list[int]:
        threads = RequestThreads(4)
        seen = []
        for _ in range(5):
            async with threads.one():
                seen.append(await sync_to_async(threading.get_ident)())
            await asyncio.gather(*threads._going_back)  # noqa: SLF001 - the moment at which it is free again
        return seen

    assert len(set(in_a_loop_of_its_own(answer()))) == 1


def test_no_two_requests_share_a_thread_and_the_third_waits():
    async def answer() -> tuple[int, bool]:
        threads, both, go_on = RequestThreads(2), threading.Barrier(3), threading.Event()

        def view() -> int:
            both.wait(WAIT_S)
            go_on.wait(WAIT_S)
            return threading.get_ident()

        async def request() -> int:
            async with threads.one():
                return await sync_to_async(view)()

        async def third() -> None:
            async with threads.one():
                pass

        two = [asyncio.ensure_future(request()) for _ in range(2)]
        await asyncio.to_thread(both.wait, WAIT_S)
        waiting = asyncio.ensure_future(third())
        await asyncio.wait({waiting}, timeout=0)
        waits = not waiting.done()
        go_on.set()
        idents = await asyncio.gather(*two)
        await asyncio.wait_for(waiting, WAIT_S)
        return len(set(idents)), waits

    assert in_a_loop_of_its_own(answer()) == (2, True)


def test_the_thread_of_a_view_whose_visitor_left_is_free_only_when_the_view_has_ended():
    async def answer() -> list[str]:
        threads, started, go_on, order = RequestThreads(1), threading.Event(), threading.Event(), []

        def view() -> None:
            started.set()
            go_on.wait(WAIT_S)
            order.append("the abandoned view ended")

        async def abandoned() -> None:
            async with threads.one():
                await sync_to_async(view)()

        async def next_one() -> None:
            async with threads.one():
                order.append("the next request began")

        leaving = asyncio.ensure_future(abandoned())
        await asyncio.to_thread(started.wait, WAIT_S)
        leaving.cancel()
        await asyncio.wait({leaving})
        following = asyncio.ensure_future(next_one())
        await asyncio.wait({following}, timeout=0)
        go_on.set()
        await asyncio.wait_for(following, WAIT_S)
        return order

    assert in_a_loop_of_its_own(answer()) == ["the abandoned view ended", "the next request began"]
