"""Source code to HTML with Pygments' short class names; the colours are in static/css/code.css."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from evaluator.contract import SourceBundle
from portal.core.helper import Helper
from problems import registry

MOST_CHARACTERS = 200_000
"""What is highlighted of a submission, all files together."""
MOST_LINES = 10_000
"""What a page lists of a submission, all files together."""
FIRST_LINES = 300
"""What it lists where nothing is wrong with them, until a reader asks for all."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control, format and surrogate characters, and of separators of lines and paragraphs."""

_LANGUAGES = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".h": "cpp"}
"""The Pygments name of the language that a file's ending stands for."""
_COLOURLESS = re.compile(r'<span class="(?:n|na|nl|nv|o|p|w)">([^<]*)</span>')
"""Names, operators and blanks: half of what Pygments writes, and static/css/code.css gives them no colour."""
_helper = Helper(seconds=1)


def visible(text: str) -> str:
    """`text` with control, direction and other invisible characters as their numbers, such as [U+202E].

    They can make a source look like another program than the one that runs, and its lines be counted otherwise.
    """
    invisible = (sign for sign in {*text} - {"\n", "\t"} if unicodedata.category(sign) in _INVISIBLE)
    return text.translate({ord(sign): f"[U+{ord(sign):04X}]" for sign in invisible})


def highlight(text: str, *, language: str) -> SafeString:
    """HTML spans of `text`, without an element around them; what would stay invisible is shown.

    It is for texts of ours: made for it, a text keeps a process busy for minutes. `listings` is for those of strangers.
    """
    lexer = get_lexer_by_name(language, stripnl=False, filters=["tokenmerge"])
    html = pygments_highlight(visible(text), lexer, HtmlFormatter(nowrap=True))
    return SafeString(_COLOURLESS.sub(r"\1", html).replace("&quot;", '"'))  # Pygments escapes the text


def highlight_lines(text: str, *, language: str) -> Iterator[tuple[int, SafeString]]:
    """Every line of `text` with its number, counted from 1, as HTML spans that end on their line."""
    return _numbered(highlight(text, language=language))


def _numbered(html: str) -> Iterator[tuple[int, SafeString]]:
    for number, line in enumerate(html.removesuffix("\n").split("\n"), start=1):
        yield number, SafeString(line)  # a part of what was escaped as a whole


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A file of a submission, line by line, as far as it is listed.

    Attributes:
        is_plain: whether its words have no colours, because highlighting them would take too long.
        left_out: how many lines at its end are not listed.
    """

    lines: tuple[tuple[int, SafeString], ...]
    is_plain: bool
    left_out: int


def listings(bundle: SourceBundle, *, most: int = MOST_LINES) -> dict[str, Listing]:
    """Every file of a submission by its path, `solution.py` first, with `most` lines in all."""
    room = most
    left_out: dict[str, int] = {}
    texts: dict[str, str] = {}
    for file in sorted(bundle.files, key=lambda file: (file.path != SourceBundle.ENTRY, file.path)):
        *lines, rest = (file.text.removesuffix("\n") + "\n").split("\n", room)
        texts[file.path] = "\n".join(lines)
        left_out[file.path] = rest.count("\n")
        room -= len(lines)
    small: list[tuple[str, str]] = []
    characters = 0
    for path, text in texts.items():
        characters += len(text)
        if characters <= MOST_CHARACTERS:
            small.append((path, text))
    highlighted = dict(zip((path for path, _ in small), _helper.each(_highlighted, small), strict=False))
    return {
        path: Listing(
            lines=tuple(_numbered(highlighted.get(path) or escape(visible(text))))
            if text or not left_out[path]
            else (),
            is_plain=path not in highlighted,
            left_out=left_out[path],
        )
        for path, text in texts.items()
    }


def _highlighted(file: tuple[str, str]) -> str:
    path, text = file
    return str(highlight(text, language=_LANGUAGES.get(PurePosixPath(path).suffix, "text")))


@cache
def reference_rows(slug: str) -> SafeString:
    """Rows of a table with the reference of the problem `slug`: number and line, found on the page as R1, R2, ..."""
    lines = highlight_lines(registry.reference_source(slug), language="python")
    return format_html_join("", '<tr id="R{}"><td>{}<td>{}', ((number, number, line) for number, line in lines))
