"""A delivery in the format of its endpoint. Names that people chose mention nobody and format nothing."""

import html
import json
import re
from dataclasses import dataclass

from django.conf import settings

from portal.deliveries.models import Delivery, Form
from portal.runs.models import RunEvent

LINES = 20
"""A message lists at most this many notices; of the others it gives the number."""
_DISCORD_CHARACTERS = 1900
_DISCORD_MARKUP, _ESCAPED = r"[\\*_~`|>\[\]()#]", r"\\\g<0>"
NAME = "ParallelKernelBench"


@dataclass(frozen=True, kw_only=True)
class Message:
    """What a message says: a heading, and lines that each have an address."""

    heading: str
    lines: tuple[tuple[str, str], ...]
    others: int

    @property
    def rest(self) -> str:
        """The line about notices that are left out; empty if there are none."""
        return f"and {self.others:,} more" if self.others else ""


def message_of(delivery: Delivery) -> Message:
    if delivery.is_test:
        line = ("This is a test of the channel.", f"{settings.SITE_URL}/accounts/notices/")
        return Message(heading=f"{NAME}: test", lines=(line,), others=0)
    notices = delivery.notices.order_by("pk")
    lines = tuple((notice.text, f"{settings.SITE_URL}{notice.path}") for notice in notices[:LINES])
    count = notices.count()
    what = "1 notice" if count == 1 else f"{count:,} notices"
    return Message(heading=f"{NAME}: {what}", lines=lines, others=max(0, count - LINES))


def body_of(delivery: Delivery) -> bytes:
    if delivery.endpoint.is_webhook:
        return _event(delivery)
    if delivery.endpoint.form == Form.SIGNED:
        return _for_programs(delivery)
    message = message_of(delivery)
    return for_slack(message) if delivery.endpoint.form == Form.SLACK else for_discord(message)


def _event(delivery: Delivery) -> bytes:
    """The event as the feed has it, its run and its organisation. A test has no event."""
    event = delivery.event or RunEvent(at=delivery.created_at, message="This is a test of the webhook.")
    content = {
        "id": event.pk,
        "kind": delivery.kind,
        "at": event.at.isoformat(),
        "run": str(event.run_id) if event.run_id else None,
        "url": f"{settings.SITE_URL}/runs/{event.run_id}/" if event.run_id else None,
        "attempt_id": event.attempt_id,
        **{name: getattr(event.attempt, name, None) for name in ("key", "problem", "sample", "step")},
        "verdict": event.verdict or None,
        "message": event.message,
        "score": event.score,
    }
    return json.dumps(content).encode()


def _for_programs(delivery: Delivery) -> bytes:
    listed = [
        {"kind": one.kind, "text": one.text, "url": f"{settings.SITE_URL}{one.path}", "at": one.at.isoformat()}
        for one in delivery.notices.order_by("pk")
    ]
    kind = "test" if delivery.is_test else "notices"
    return json.dumps({"id": str(delivery.pk), "kind": kind, "notices": listed}).encode()


def for_slack(message: Message) -> bytes:
    """Slack's incoming webhooks: links as `<address|text>`; only &, < and > mean anything, and are escaped."""
    # A bar would end the address of a link.
    escaped = ((html.escape(text, quote=False).replace("|", "/"), address) for text, address in message.lines)
    lines = [f"• <{address}|{text}>" for text, address in escaped]
    return json.dumps({"text": "\n".join([f"*{message.heading}*", *lines, message.rest]).strip()}).encode()


def for_discord(message: Message) -> bytes:
    """Discord's webhooks: at most 2,000 characters, nobody is mentioned, and no link is unfolded into a picture."""
    lines = [f"- {re.sub(_DISCORD_MARKUP, _ESCAPED, text)} <{address}>" for text, address in message.lines]
    content = f"**{message.heading}**"
    shown = 0
    for line in lines:
        if len(content) + len(line) > _DISCORD_CHARACTERS:
            break
        content, shown = f"{content}\n{line}", shown + 1
    left_out = message.others + len(lines) - shown
    rest = f"\nand {left_out:,} more" if left_out else ""
    return json.dumps({"content": f"{content}{rest}", "allowed_mentions": {"parse": []}}).encode()


def for_mail(message: Message) -> str:
    lines = [f"{text}\n{address}\n" for text, address in message.lines]
    foot = f"Change your notices: {settings.SITE_URL}/accounts/notices/"
    return "\n".join([*lines, message.rest, "--", foot]).strip() + "\n"
