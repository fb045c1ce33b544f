"""The manual cut at its headings, as plain text. It is read from the Markdown, so no page has to be rendered."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown.extensions.toc import slugify, unique

from portal.manual.rendering import DEEPEST

_HEADING = re.compile(r"(#{1,6}) +(.+?)(?: +#+)?$")
_TABLE_RULE = re.compile(r"[-:| ]+$")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^>]*>|<!--.*?-->")
_MARKUP = re.compile(r"\*\*|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
_MARKER = re.compile(r"^ *(?:[-*+>]|\d+\.) +", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Passage:
    """The beginning of a page, or a heading of level 2 or 3 with what stands below it.

    Attributes:
        title: the page's.
        heading: "" for the beginning of the page.
        anchor: as in the rendered page; "" for the beginning.
        text: without Markdown.
    """

    title: str
    heading: str
    anchor: str
    text: str


def passages(markdown: str) -> Iterator[Passage]:
    """The passages of one page in their order. Its first heading is its title."""
    title = heading = anchor = ""
    anchors: set[str] = set()
    lines: list[str] = []
    for line, found in _lines(markdown):
        if found is None:
            lines.append(line)
            continue
        name = _plain(found[2])
        own_anchor = unique(slugify(name, "-"), anchors)
        if len(found[1]) > DEEPEST:
            lines.append(name)
        elif not title:
            title = name
        else:
            yield Passage(title=title, heading=heading, anchor=anchor, text=_text(lines))
            heading, anchor, lines = name, own_anchor, []
    yield Passage(title=title, heading=heading, anchor=anchor, text=_text(lines))


def _lines(markdown: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Every line, and what makes it a heading. A line of a block of code is a span of code, and never a heading."""
    is_code = False
    for line in markdown.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        elif is_code:
            yield f"```{line}```" if line else "", None
        elif line.startswith("|"):
            yield "" if _TABLE_RULE.match(line) else line.strip("| ").replace("|", "·"), None
        else:
            yield line, _HEADING.match(line) if line.startswith("#") else None


def _text(lines: list[str]) -> str:
    return " ".join(_plain(_MARKER.sub("", "\n".join(lines))).split())


def _plain(markdown: str) -> str:
    """Without marks. What stands in backticks is kept to the letter: it names settings, commands and files."""
    pieces = _CODE.split(_LINK.sub(r"\1", markdown))
    # The pattern has two groups, so pieces come in threes: text, the backticks, the code between them.
    return "".join(
        piece if number % 3 == 2 else html.unescape(_MARKUP.sub("", _TAG.sub("", piece)))
        for number, piece in enumerate(pieces)
        if number % 3 != 1
    )
