"""Statements from Markdown with mathematics to safe HTML: no raw HTML, mathematics as MathML, code in our classes."""

from functools import lru_cache
from html import escape

from django.utils.safestring import SafeString
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from portal.catalog.highlighting import highlight


def _mathml(latex: str, options: dict[str, bool]) -> str:
    """MathML of `latex`; where the converter fails, the LaTeX itself stays readable as code."""
    display = "block" if options.get("display_mode") else "inline"
    try:
        return str(convert(latex, display=display))
    except Exception:  # noqa: BLE001 - the converter raises what it pleases on LaTeX that it does not know
        return f"<code>{escape(latex)}</code>"


def _code(text: str, language: str, _attributes: str) -> str:
    try:
        get_lexer_by_name(language or "text")
    except ClassNotFound:
        return escape(text)
    return highlight(text, language=language or "text")


def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "highlight": _code}
    parser = MarkdownIt("commonmark", options).enable("table")
    return parser.use(dollarmath_plugin, renderer=_mathml, allow_space=False, double_inline=True)


@lru_cache(maxsize=256)
def render(text: str) -> SafeString:
    """HTML of a Markdown text.

    Raw HTML in the text is shown as text and addresses with a script scheme are not linked, so the result is safe
    whoever wrote the text.
    """
    return SafeString(_parser().render(text))  # the parser escapes everything it does not produce itself
