"""Sending messages to channels until they accept them or the time is over.

What happens within a few minutes is folded into one message: the first goes out at once, the next after `QUIET`. A far
end that fails is left alone for longer and longer, as webhooks are. What a process had claimed when it died becomes
free by itself.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from portal.notices import mailing, writing
from portal.notices.models import Channel, Form, Message, MessageState, Notice, NoticeKind
from portal.notices.noticing import is_still_done
from portal.webhooks import posting
from portal.webhooks.delivering import BACK_OFF_S, signature
from portal.webhooks.posting import Answer

GATHER = timedelta(seconds=3)
"""So long the first of several waits for the others."""
QUIET = timedelta(minutes=5)
"""So long a channel is left alone after a message."""
_CLAIM = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A channel that is due. `only_tests` while nothing else may be sent."""

    key: int
    account: int
    free_at: datetime
    only_tests: bool


def due_turns(now: datetime, *, limit: int, without: Collection[int] = (), busy: Collection[int] = ()) -> list[Turn]:
    """The channels with pending notices, the longest free first; see `portal.webhooks.delivering`."""
    waiting = Message.objects.filter(channel=OuterRef("pk"), state=MessageState.WAITING, next_try_at__lte=now)
    untold = Notice.objects.filter(channel=OuterRef("pk"), message=None, at__lte=now - GATHER)
    is_free = Q(free_at__lte=now)
    rows = (
        Channel.objects.filter(removed_at=None, user__is_active=True)
        .filter((is_free & (Exists(waiting) | Exists(untold))) | Exists(waiting.filter(is_test=True)))
        .exclude(user__in=without)
        .exclude(pk__in=busy)
        .order_by("free_at", "pk")
    )
    return [
        Turn(key=pk, account=user, free_at=free_at, only_tests=free_at > now)
        for pk, user, free_at in rows.values_list("pk", "user", "free_at")[:limit]
    ]


def take_turn(turn: Turn, now: datetime) -> int:
    """Send a channel what is due at `now`: a test, and one message; returns the number of tries."""
    row = Channel.objects.filter(pk=turn.key, free_at=turn.free_at, removed_at=None)
    # Two processes may have read the same row: only one finds it as it was.
    if not row.update(free_at=now + _CLAIM):
        return 0
    chosen = list(_due(turn, now))
    for message in chosen:
        _deliver(message)
    # Unless a try has set when it is free again, it is so at once.
    Channel.objects.filter(pk=turn.key, free_at=now + _CLAIM).update(free_at=turn.free_at)
    return len(chosen)


def send_due(now: datetime) -> int:
    """Give every channel that is due its turn, one after another; returns how many tries that took."""
    return sum(take_turn(turn, now) for turn in due_turns(now, limit=1000))


def _due(turn: Turn, now: datetime) -> list[Message]:
    messages = Message.objects.filter(channel=turn.key, state=MessageState.WAITING, next_try_at__lte=now)
    tests = list(messages.filter(is_test=True)[:1])
    if turn.only_tests:
        return tests
    first = messages.filter(is_test=False).order_by("created_at").first() or _folded(turn.key)
    return [*tests, first] if first is not None else tests


def _folded(channel_id: int) -> Message | None:
    """All pending notices as one message; None if none remains."""
    with transaction.atomic():
        untold = list(Notice.objects.select_for_update().filter(channel=channel_id, message=None))
        kept = _without_stale(untold)
        Notice.objects.filter(pk__in=[one.pk for one in untold if one not in kept]).delete()
        if not kept:
            return None
        message = Message.objects.create(channel_id=channel_id)
        Notice.objects.filter(pk__in=[one.pk for one in kept]).update(message=message)
    return message


def _without_stale(notices: list[Notice]) -> list[Notice]:
    """Only the last notice of every run, and none of a run that has pending attempts again."""
    last = {one.about: one.pk for one in notices if one.kind == NoticeKind.RUN_DONE}
    done = {about for about in last if is_still_done(about)}
    return [
        one for one in notices if one.kind != NoticeKind.RUN_DONE or (one.about in done and last[one.about] == one.pk)
    ]


def _deliver(message: Message) -> None:
    notices = list(message.notices.order_by("pk"))
    _note(message, _answer(message, notices), timezone.now())


def _answer(message: Message, notices: list[Notice]) -> Answer:
    channel = message.channel
    letter = writing.letter_of(message, notices)
    if channel.form == Form.MAIL:
        return mailing.send(channel.user, subject=letter.heading, body=writing.for_mail(letter))
    headers = {"Content-Type": "application/json", "User-Agent": "ParallelKernelBench-notices/1"}
    if channel.form == Form.SIGNED:
        body = writing.for_programs(message, notices)
        headers["X-PKB-Delivery"] = str(message.pk)
        stamp = int(timezone.now().timestamp())
        headers["X-PKB-Signature"] = signature(channel.secret, body, timestamp=stamp)
    else:
        body = writing.for_slack(letter) if channel.form == Form.SLACK else writing.for_discord(letter)
    return posting.post(channel.url, body, headers)


def _note(message: Message, answer: Answer, now: datetime) -> None:
    # As for webhooks: of two processes that sent the same, the first answer counts.
    row = Message.objects.filter(pk=message.pk, tries=message.tries, state=MessageState.WAITING)
    known = {"tries": F("tries") + 1, "answer_status": answer.status, "error": answer.error[:300]}
    channel = Channel.objects.filter(pk=message.channel_id)
    if answer.is_good:
        row.update(state=MessageState.DELIVERED, next_try_at=None, delivered_at=now, **known)
        if not message.is_test:
            channel.update(failures=0, free_at=now + QUIET)
        return
    if message.is_test or message.tries >= len(BACK_OFF_S):
        row.update(state=MessageState.GIVEN_UP, next_try_at=None, **known)
    else:
        row.update(next_try_at=now + timedelta(seconds=BACK_OFF_S[message.tries]), **known)
    if not message.is_test:
        wait_s = BACK_OFF_S[min(message.channel.failures, len(BACK_OFF_S) - 1)]
        channel.update(failures=F("failures") + 1, free_at=now + timedelta(seconds=wait_s))
