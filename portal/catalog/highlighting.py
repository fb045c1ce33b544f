"""Source code to HTML with Pygments' short class names; the colours are in static/css/code.css."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from problems import registry

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control, format and surrogate characters, and of separators of lines and paragraphs."""

_LANGUAGES = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".h": "cpp"}


def language_of(path: str) -> str:
    """The Pygments name of the language that a file's ending stands for; `text` where we know none."""
    return _LANGUAGES.get(PurePosixPath(path).suffix, "text")


def visible(text: str) -> str:
    """`text` with control, direction and other invisible characters as their numbers, such as [U+202E].

    They can make a source look like another program than the one that runs, and its lines be counted otherwise.
    """
    return text if text.isascii() and not _CONTROL.search(text) else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _INVISIBLE:
        return character
    return f"[U+{ord(character):04X}]"


def highlight(text: str, *, language: str) -> SafeString:
    """HTML spans of `text`, without an element around them; what would stay invisible is shown."""
    html = pygments_highlight(visible(text), get_lexer_by_name(language, stripnl=False), HtmlFormatter(nowrap=True))
    return SafeString(html)  # Pygments escapes the text


def highlight_lines(text: str, *, language: str) -> Iterator[tuple[int, SafeString]]:
    """Every line of `text` with its number, counted from 1, as HTML spans that end on their line."""
    for number, line in enumerate(highlight(text, language=language).removesuffix("\n").split("\n"), start=1):
        yield number, SafeString(line)  # a part of what `highlight` returned


@cache
def reference_rows(slug: str) -> SafeString:
    """Rows of a table with the reference of the problem `slug`: number and line, found on the page as R1, R2, ..."""
    lines = highlight_lines(registry.reference_source(slug), language="python")
    form = '<tr id="R{}"><td class="no">{}</td><td class="code">{}</td></tr>'
    return format_html_join("", form, ((number, number, line) for number, line in lines))
