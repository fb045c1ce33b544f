"""Event streams of live pages: one line whenever what the page follows has changed, beside Django's own handler.

A stream holds a socket and nothing else: no thread and no connection to the database. One task per process asks the
database about everything that somebody follows there, a few times a second, and wakes the streams concerned. An event
says only that there is something new; the page fetches it by its ordinary address, with the reader's own rights.

What is fetched costs far more than an event: when a queue moves, every position in it changes. So streams are
woken a few at a time, those first whose own evaluation or run has changed, and others find the site as quick as ever.
"""

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

from django.db import close_old_connections, connections
from django.db.models import Count, Max, Q

from portal.core import database_outage, live_links
from portal.core.live_links import Kind, Subject
from portal.runs.models import Attempt, AttemptState
from portal.submissions.models import Evaluation, State

ASK_EVERY_S = 0.3
WAKES_PER_ASK = 6
"""Twenty a second in each process: their answers take about a third of a processor (docs/deploy.md has the figures)."""
PING_S = 15.0
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_ENDED = State.ended()
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Version:
    """What a subject was like when it was asked about.

    `text` differs once the subject itself has changed, `queue` once what waits around it has.
    """

    text: str
    has_ended: bool = False
    queue: int = 0


class Urgency(IntEnum):
    """Which streams are woken first."""

    CHANGED = 0
    OPENED = 1
    MOVED = 2


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Follow the subject of the address until it ends or the reader leaves; 404 to an address that is not ours."""
    subject = live_links.subject_of(scope["path"])
    if subject is None or scope["method"] != "GET":
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"There is nothing to follow at this address.\n"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    stream = asyncio.ensure_future(_stream(subject, send))
    gone = asyncio.ensure_future(_until_gone(receive))
    await asyncio.wait({stream, gone}, return_when=asyncio.FIRST_COMPLETED)
    for task in (stream, gone):
        task.cancel()
    await asyncio.gather(stream, gone, return_exceptions=True)


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stream(subject: Subject, send: Any) -> None:
    async def say(text: str, *, more: bool = True) -> None:
        await send({"type": "http.response.body", "body": text.encode(), "more_body": more})

    with _watch().following(subject) as follower:
        await say("retry: 2000\n\n")
        seen = None
        while True:
            version = await follower.next(after=seen)
            if version is None:
                await say(": still here\n\n")
                continue
            seen = version
            await say("event: changed\ndata: now\n\n")
            if version.has_ended:
                await say("event: end\ndata: now\n\n", more=False)
                return


@dataclass(eq=False)
class _Follower:
    watch: "_Watch"
    subject: Subject
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self, *, after: Version | None) -> Version | None:
        """The subject's version once it is another than `after`; None when nothing happened for a while."""
        while True:
            try:
                await asyncio.wait_for(self.woken.wait(), PING_S)
            except TimeoutError:
                return None
            self.woken.clear()
            version = self.watch.versions.get(self.subject)
            if version is not None and version != after:
                return version


class _Watch:
    """All open streams of one event loop, and the task that asks the database for them while there are any."""

    def __init__(self) -> None:
        self.versions: dict[Subject, Version] = {}
        # Dicts, because they keep their order: the stream that waits longest is woken first.
        self._due: dict[Urgency, dict[_Follower, None]] = {urgency: {} for urgency in Urgency}
        self._followers: dict[Subject, set[_Follower]] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_away = False

    @contextmanager
    def following(self, subject: Subject) -> Iterator[_Follower]:
        """A stream of `subject`: ask for that from now on, and no more once the last of its streams has left."""
        follower = _Follower(self, subject)
        followers = self._followers.setdefault(subject, set())
        followers.add(follower)
        if subject in self.versions:
            self._due[Urgency.OPENED][follower] = None
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._ask())
        try:
            yield follower
        finally:
            self._drop([follower])
            followers.discard(follower)
            if not followers:
                del self._followers[subject]
                self.versions.pop(subject, None)

    def _drop(self, followers: Iterable[_Follower]) -> None:
        """They are due no longer."""
        for due, follower in product(self._due.values(), followers):
            due.pop(follower, None)

    async def _ask(self) -> None:
        # A stream may open while the connection of those before is closed: it finds this task and starts no other.
        while self._followers:
            await self._ask_with_a_connection()

    async def _ask_with_a_connection(self) -> None:
        loop = asyncio.get_running_loop()
        # A thread of its own keeps one connection to the database, however many streams there are.
        with ThreadPoolExecutor(1, thread_name_prefix="live") as thread:
            while self._followers:
                try:
                    found = await loop.run_in_executor(thread, read_versions, list(self._followers))
                except Exception as error:  # noqa: BLE001 - whatever it is, it must not silence the streams for good
                    self._note(error)
                else:
                    self._is_away = False
                    self._notify(found)
                await asyncio.sleep(ASK_EVERY_S)
            await loop.run_in_executor(thread, connections.close_all)

    def _note(self, error: Exception) -> None:
        """One line when the database goes away, for it is asked several times a second."""
        if not database_outage.is_database_away(error):
            _log.error("live pages cannot be updated for the moment", exc_info=error)
        elif not self._is_away:
            _log.warning("live pages wait for the database: %s", str(error).partition("\n")[0])
        self._is_away = database_outage.is_database_away(error)

    def _notify(self, found: dict[Subject, Version]) -> None:
        for subject, version in found.items():
            if subject in self._followers and (before := self.versions.get(subject)) != version:
                self.versions[subject] = version
                self._due[_urgency(before, version)] |= dict.fromkeys(self._followers[subject])
        for follower in self._first(WAKES_PER_ASK):
            follower.woken.set()

    def _first(self, number: int) -> list[_Follower]:
        """A bounded number of the streams that are due; they are then no longer due."""
        first = list(dict.fromkeys(follower for urgency in Urgency for follower in self._due[urgency]))[:number]
        self._drop(first)
        return first


def _urgency(before: Version | None, now: Version) -> Urgency:
    if before is None:
        return Urgency.OPENED
    return Urgency.MOVED if before.text == now.text else Urgency.CHANGED


_watches: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch]" = WeakKeyDictionary()


def _watch() -> _Watch:
    return _watches.setdefault(asyncio.get_running_loop(), _Watch())


def read_versions(subjects: Collection[Subject]) -> dict[Subject, Version]:
    """What each of `subjects` is like now, in at most three queries; what does not exist has ended."""
    close_old_connections()
    found = {subject: Version("gone", has_ended=True) for subject in subjects}
    found |= _evaluations([subject.identifier for subject in subjects if subject.kind is Kind.EVALUATION])
    found |= _runs([subject.identifier for subject in subjects if subject.kind is Kind.RUN])
    return found


def _evaluations(identifiers: list[str]) -> dict[Subject, Version]:
    fields = ("pk", "state", "profile", "attempt", "stage", "stage_detail", "stage_fraction", "verdict")
    rows = list(Evaluation.objects.filter(pk__in=identifiers).values_list(*fields)) if identifiers else []
    waiting = _waiting({profile for _, state, profile, *_ in rows if state == State.QUEUED})
    return {
        Subject(Kind.EVALUATION, str(pk)): Version(
            repr((state, rest)), has_ended=state in _ENDED, queue=waiting[profile] if state == State.QUEUED else 0
        )
        for pk, state, profile, *rest in rows
    }


def _waiting(profiles: Iterable[str]) -> Counter[str]:
    """How many wait per profile: a queue that moves changes all positions in it."""
    if not (chosen := list(profiles)):
        return Counter()
    rows = Evaluation.objects.filter(state=State.QUEUED, profile__in=chosen).order_by().values_list("profile")
    return Counter(dict(rows.annotate(Count("id"))))


def _runs(identifiers: list[str]) -> dict[Subject, Version]:
    if not identifiers:
        return {}
    pending = Count("id", filter=Q(state=AttemptState.PENDING))
    runs = [uuid.UUID(identifier) for identifier in identifiers]
    rows = Attempt.objects.filter(run__in=runs).order_by().values_list("run")
    return {
        Subject(Kind.RUN, str(run)): Version(repr((total, last, waits)), has_ended=not waits)
        for run, total, last, waits in rows.annotate(total=Count("id"), last=Max("id"), waits=pending)
    }
