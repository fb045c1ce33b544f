"""Source code to HTML with Pygments' short class names; the colours are in static/css/code.css."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from django.utils.safestring import SafeString
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

_LANGUAGES = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".h": "cpp"}


def language_of(path: str) -> str:
    """The Pygments name of the language that a file's ending stands for; `text` where we know none."""
    return _LANGUAGES.get(PurePosixPath(path).suffix, "text")


def highlight(text: str, *, language: str) -> SafeString:
    """HTML spans of `text`, without an element around them."""
    html = pygments_highlight(text, get_lexer_by_name(language, stripnl=False), HtmlFormatter(nowrap=True))
    return SafeString(html)  # Pygments escapes the text


def highlight_lines(text: str, *, language: str) -> Iterator[tuple[int, SafeString]]:
    """Every line of `text` with its number, counted from 1, as HTML spans that end on their line."""
    for number, line in enumerate(highlight(text, language=language).splitlines(), start=1):
        yield number, SafeString(line)  # a part of what `highlight` returned
