"""Requests borrow threads: what one leaves behind the next one finds, and who leaves early takes no thread with it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from portal.core.threads import NotWanted, RequestThreads

WAIT_S = 20


def in_a_loop_of_its_own(coroutine):
    """A browser that an earlier test drove leaves its event loop in this thread."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, coroutine).result()


def test_the_next_request_finds_the_thread_of_the_last_one():
    async def answer() -> list[int]:
        threads = RequestThreads(4)
        return [await threads.run(threading.get_ident) for _ in range(5)]

    assert len(set(in_a_loop_of_its_own(answer()))) == 1


def test_a_call_sees_the_context_of_its_task_and_its_error_comes_back():
    name = ContextVar("name", default="nobody")

    def view() -> None:
        raise ValueError(name.get())

    async def answer() -> str:
        name.set("this request")
        with pytest.raises(ValueError, match="this request"):
            await RequestThreads(1).run(view)

    in_a_loop_of_its_own(answer())


def test_a_call_that_nobody_waits_for_any_more_does_not_begin():
    async def answer() -> int:
        threads = RequestThreads(1)
        with pytest.raises(NotWanted):
            await threads.run(threading.get_ident, unless=lambda: True)
        return await threads.run(threading.get_ident)

    assert in_a_loop_of_its_own(answer())


def test_no_two_requests_share_a_thread_and_the_third_waits():
    async def answer() -> tuple[int, bool]:
        threads, both, go_on = RequestThreads(2), threading.Barrier(3), threading.Event()

        def view() -> int:
            both.wait(WAIT_S)
            go_on.wait(WAIT_S)
            return threading.get_ident()

        two = [asyncio.ensure_future(threads.run(view)) for _ in range(2)]
        await asyncio.to_thread(both.wait, WAIT_S)
        third = asyncio.ensure_future(threads.run(threading.get_ident))
        await asyncio.wait({third}, timeout=0)
        waits = not third.done()
        go_on.set()
        idents = await asyncio.gather(*two)
        await asyncio.wait_for(third, WAIT_S)
        return len(set(idents)), waits

    assert in_a_loop_of_its_own(answer()) == (2, True)


def test_the_thread_of_a_view_whose_visitor_left_is_free_only_when_the_view_has_ended():
    async def answer() -> list[str]:
        threads, started, go_on, order = RequestThreads(1), threading.Event(), threading.Event(), []

        def view() -> None:
            started.set()
            go_on.wait(WAIT_S)
            order.append("the abandoned view ended")

        leaving = asyncio.ensure_future(threads.run(view))
        await asyncio.to_thread(started.wait, WAIT_S)
        leaving.cancel()
        await asyncio.wait({leaving})
        following = asyncio.ensure_future(threads.run(lambda: order.append("the next request began")))
        await asyncio.wait({following}, timeout=0)
        go_on.set()
        await asyncio.wait_for(following, WAIT_S)
        return order

    assert in_a_loop_of_its_own(answer()) == ["the abandoned view ended", "the next request began"]
