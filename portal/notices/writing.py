"""A message in the format of its channel. Names that people chose mention nobody and format nothing."""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from portal.notices.models import Message, Notice

LINES = 20
"""A message lists at most this many notices; of the others it gives the number."""
_DISCORD_CHARACTERS = 1900
NAME = "ParallelKernelBench"


@dataclass(frozen=True, kw_only=True)
class Letter:
    """What a message says: a heading, and lines that each have an address."""

    heading: str
    lines: tuple[tuple[str, str], ...]
    others: int

    @property
    def rest(self) -> str:
        """The line about notices that are left out; empty if there are none."""
        return f"and {self.others:,} more" if self.others else ""


def letter_of(message: Message, notices: Sequence[Notice]) -> Letter:
    """The text of `message` for `notices`."""
    if message.is_test:
        line = ("This is a test of the channel.", f"{settings.SITE_URL}/accounts/notices/")
        return Letter(heading=f"{NAME}: test", lines=(line,), others=0)
    what = "1 notice" if len(notices) == 1 else f"{len(notices):,} notices"
    lines = tuple((notice.text, f"{settings.SITE_URL}{notice.path}") for notice in notices[:LINES])
    return Letter(heading=f"{NAME}: {what}", lines=lines, others=max(0, len(notices) - LINES))


def for_slack(letter: Letter) -> bytes:
    """Slack's incoming webhooks: links as `<address|text>`; only &, < and > mean anything, and are escaped."""
    lines = [f"• <{address}|{_slack_text(text)}>" for text, address in letter.lines]
    return json.dumps({"text": "\n".join([f"*{letter.heading}*", *lines, letter.rest]).strip()}).encode()


def _slack_text(text: str) -> str:
    # A bar would end the address of a link.
    return html.escape(text, quote=False).replace("|", "/")


def for_discord(letter: Letter) -> bytes:
    """Discord's webhooks: at most 2,000 characters, nobody is mentioned, and no link is unfolded into a picture."""
    lines = [f"- {_discord_text(text)} <{address}>" for text, address in letter.lines]
    content = f"**{letter.heading}**"
    shown = 0
    for line in lines:
        if len(content) + len(line) > _DISCORD_CHARACTERS:
            break
        content, shown = f"{content}\n{line}", shown + 1
    left_out = letter.others + len(lines) - shown
    rest = f"\nand {left_out:,} more" if left_out else ""
    return json.dumps({"content": f"{content}{rest}", "allowed_mentions": {"parse": []}}).encode()


def _discord_text(text: str) -> str:
    return "".join(f"\\{character}" if character in "\\*_~`|>[]()#" else character for character in text)


def for_programs(message: Message, notices: Sequence[Notice]) -> bytes:
    """JSON with every notice, for receivers that check the signature."""
    listed = [
        {"kind": one.kind, "text": one.text, "url": f"{settings.SITE_URL}{one.path}", "at": one.at.isoformat()}
        for one in notices
    ]
    kind = "test" if message.is_test else "notices"
    return json.dumps({"id": str(message.pk), "kind": kind, "notices": listed}).encode()


def for_mail(letter: Letter) -> str:
    """The body of a mail: plain text."""
    lines = [f"{text}\n{address}\n" for text, address in letter.lines]
    foot = f"Change your notices: {settings.SITE_URL}/accounts/notices/"
    return "\n".join([*lines, letter.rest, "--", foot]).strip() + "\n"
