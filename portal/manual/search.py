"""Search in the whole text of the manual: SQLite's FTS5 over its passages, in memory, built once per process."""

import html
import re
import sqlite3
from collections.abc import Iterator
from functools import cache

from django.utils.safestring import SafeString

from portal.manual import pages
from portal.manual.pages import DEEPEST, Rendered

_CREATE = """
CREATE VIRTUAL TABLE passage USING fts5(
    title, heading, body, shown UNINDEXED, url UNINDEXED, is_decision UNINDEXED, tokenize = 'porter unicode61'
)
"""
# A word in a heading says more than one in a title, and that more than one in the text.
_FIND = """
SELECT title, shown, url, snippet(passage, 2, char(2), char(3), '…', 24) FROM passage
WHERE passage MATCH ? ORDER BY is_decision, bm25(passage, 4.0, 10.0, 1.0), rowid LIMIT ?
"""
_SHORTEST_BEGINNING = 3
_HEADING = re.compile(rf'<h([1-{DEEPEST}]) id="(.*?)">(.*?)<a class="headerlink".*?</h\1>', re.DOTALL)
_BETWEEN_CELLS = re.compile(r"</t[dh]>\s*(?=<t[dh])")
_TAG = re.compile("<[^>]+>")


def find(text: str, *, limit: int) -> tuple[dict[str, str], ...]:
    """Up to `limit` passages that contain every word of `text`, or from three letters on a longer word; the best first.

    A word of the page's title counts for each of its passages, but another has to stand in the passage itself.
    Decisions come after the pages that say how things are. Each has its page's title, its heading, empty at the top of
    a page, its address, and the words around the first match, matches marked.
    """
    # In quotes, so that FTS5 takes none of them for its operators.
    words = [f'"{word}"' + "*" * (len(word) >= _SHORTEST_BEGINNING) for word in re.findall(r"\w+", text)]
    if not words:
        return ()
    wanted = f"({{heading body}} : ({' OR '.join(words)})) AND {' AND '.join(words)}"
    return tuple(
        {"title": title, "heading": shown, "url": url, "excerpt": _marked(excerpt)}
        for title, shown, url, excerpt in _index().execute(_FIND, (wanted, limit))
    )


def _marked(excerpt: str) -> SafeString:
    return SafeString(html.escape(excerpt).replace("\x02", "<mark>").replace("\x03", "</mark>"))


@cache
def _index() -> sqlite3.Connection:
    # Threads of the web process share it: SQLite takes their statements one after the other.
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute(_CREATE)
    connection.executemany("INSERT INTO passage VALUES (?, ?, ?, ?, ?, ?)", _rows())
    return connection


def _rows() -> Iterator[tuple[str, str, str, str, str, bool]]:
    # The list of problems is left out: a search finds the problems themselves.
    for path in (path for path in pages.page_paths() if path != "problems.md"):
        rendered, url = pages.rendered_page(path), pages.page_url(path)
        for heading, anchor, text in passages(rendered):
            shown, place = (heading, f"{url}#{anchor}") if anchor else ("", url)
            yield rendered.title, heading, text, shown, place, path.startswith("decisions/")


def passages(page: Rendered) -> Iterator[tuple[str, str, str]]:
    """A page cut at its headings: heading, anchor and the text below each; the beginning is without an anchor."""
    # The pattern has three groups, so pieces come in fours: level, anchor, heading, and what stands below.
    _, *pieces = _HEADING.split(page.html)
    for level, anchor, heading, below in zip(*(pieces[group::4] for group in range(4)), strict=True):
        yield _plain(heading), "" if level == "1" else anchor, _plain(_BETWEEN_CELLS.sub(" · ", below))


def _plain(text: str) -> str:
    return " ".join(html.unescape(_TAG.sub("", text)).split())
