"""Event streams of live pages, called as a server does: what they send, to whom, and when they end."""

import asyncio
import threading

import pytest
from asgiref.sync import sync_to_async

from portal.asgi import application
from portal.core import live_links
from portal.core.live_links import Kind, Subject
from portal.pages import live
from portal.runs.models import Attempt, AttemptState
from portal.submissions.models import Evaluation, State
from tests.portal.pages import scenes
from tests.portal.runs.rows import add, line, make_run

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 20


class Reader:
    """One open stream: asks for `path` and collects what comes."""

    def __init__(self, path: str) -> None:
        self.scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
        self.messages: asyncio.Queue = asyncio.Queue()
        self.gone = asyncio.Event()
        self.task = asyncio.ensure_future(application(self.scope, self._receive, self.messages.put))

    async def _receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def message(self):
        return await asyncio.wait_for(self.messages.get(), WAIT_S)

    async def expect(self, words: str) -> None:
        """Read until `words` come; fails after `WAIT_S`."""
        async with asyncio.timeout(WAIT_S):
            while words not in (await self.message()).get("body", b"").decode():
                pass


def follow(submission) -> str:
    return live_links.address(Subject(Kind.EVALUATION, str(submission.evaluations.get().pk)))


def change(**values) -> None:
    Evaluation.objects.update(**values)


def test_a_stream_reports_every_change_and_ends_with_the_evaluation(alice, local):
    submission = scenes.submit(alice)
    path = follow(submission)

    async def read() -> None:
        reader = Reader(path)
        start = await reader.message()
        assert start["status"] == 200
        assert dict(start["headers"])[b"content-type"].startswith(b"text/event-stream")
        await reader.expect("event: changed")
        for values in ({"state": State.RUNNING, "stage": "verifying"}, {"stage": "timing"}):
            await sync_to_async(change)(**values)
            await reader.expect("event: changed")
        await sync_to_async(change)(state=State.FINISHED, verdict="PASSED")
        await reader.expect("event: end")
        await asyncio.wait_for(reader.task, WAIT_S)

    asyncio.run(read())


def test_whoever_waits_hears_that_the_queue_moved(alice, bob, local):
    first, second = scenes.submit(bob), scenes.submit(alice)
    path = follow(second)

    async def read() -> None:
        reader = Reader(path)
        await reader.expect("event: changed")
        leave = Evaluation.objects.filter(submission=first).update
        await sync_to_async(leave)(state=State.CANCELLED)
        await reader.expect("event: changed")
        reader.gone.set()
        await asyncio.wait_for(reader.task, WAIT_S)

    asyncio.run(read())


def test_a_run_is_followed_until_nothing_of_it_is_pending(alice, local):
    run = make_run(alice)
    add(run, line())
    path = live_links.address(Subject(Kind.RUN, str(run.pk)))

    async def read() -> None:
        reader = Reader(path)
        await reader.expect("event: changed")
        await sync_to_async(Attempt.objects.update)(state=AttemptState.ENDED)
        await reader.expect("event: end")

    asyncio.run(read())


def test_of_many_who_wait_the_one_whose_evaluation_starts_hears_first(alice, bob, local, monkeypatch):
    monkeypatch.setattr(live, "WAKES_PER_ASK", 1)
    waiting = [follow(scenes.submit(alice)) for _ in range(4)]
    starting = scenes.submit(bob)
    heard: asyncio.Queue = asyncio.Queue()

    async def read(path: str) -> None:
        reader = Reader(path)
        await reader.expect("event: changed")
        await heard.put("open")
        await reader.expect("event: changed")
        await heard.put(path)
        reader.gone.set()

    async def follow_all() -> str:
        follow_of_bob = await sync_to_async(follow)(starting)
        tasks = [asyncio.ensure_future(read(path)) for path in [*waiting, follow_of_bob]]
        for _ in tasks:
            assert await asyncio.wait_for(heard.get(), WAIT_S) == "open"
        await sync_to_async(Evaluation.objects.filter(submission=starting).update)(state=State.RUNNING)
        first = await asyncio.wait_for(heard.get(), WAIT_S)
        await asyncio.wait_for(asyncio.gather(*tasks), WAIT_S)
        return "the one that starts" if first == follow_of_bob else "one that only moved up"

    assert asyncio.run(follow_all()) == "the one that starts"


@pytest.mark.parametrize("path", ["/live/", "/live/nonsense", "/live/31c09cd8-fcec-4d15-bfaa-6f7e46938ad3"])
def test_an_address_that_the_site_did_not_sign_is_a_404(path):
    async def read() -> int:
        return (await Reader(path).message())["status"]

    assert asyncio.run(read()) == 404


def test_a_page_names_its_stream_while_it_lives_and_not_afterwards(client, alice, local):
    client.force_login(alice)
    waiting = scenes.submit(alice)
    page = client.get(f"/submissions/{waiting.pk}/").content.decode()
    assert 'data-stream="/live/' in page
    done = scenes.judged(alice, local)
    assert "data-stream" not in client.get(f"/submissions/{done.pk}/").content.decode()


def test_a_stream_that_opens_while_the_last_one_is_put_away_is_followed(alice, local, monkeypatch):
    """A reader who goes from one live page to the next closes a stream and opens another at the same moment."""
    path = follow(scenes.submit(alice))
    closing, may_close, close_all = threading.Event(), threading.Event(), live.connections.close_all

    def close_slowly() -> None:
        closing.set()
        may_close.wait(WAIT_S)
        close_all()

    monkeypatch.setattr(live.connections, "close_all", close_slowly)

    async def read() -> None:
        first = Reader(path)
        await first.expect("changed")
        first.gone.set()
        await first.task
        assert await asyncio.to_thread(closing.wait, WAIT_S)
        second = Reader(path)
        await second.expect("retry")
        may_close.set()
        await second.expect("changed")
        second.gone.set()
        await second.task

    asyncio.run(read())
