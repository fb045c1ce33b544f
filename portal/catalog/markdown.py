"""Statements from Markdown with mathematics to safe HTML: no raw HTML, mathematics as MathML, code in our classes."""

from functools import lru_cache
from html import escape
from xml.etree import ElementTree as ET

from django.utils.safestring import SafeString
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from portal.catalog.highlighting import highlight

_MATHML = frozenset(
    {
        *("math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "msub", "msup", "msubsup", "munder", "mover"),
        *("munderover", "mfrac", "msqrt", "mroot", "mtable", "mtr", "mtd", "mlabeledtr", "mstyle", "mpadded"),
        *("mphantom", "menclose", "mfenced", "mmultiscripts", "mprescripts", "none"),
    }
)
_ATTRIBUTES = frozenset(
    {
        *("display", "mathvariant", "stretchy", "fence", "form", "separator", "accent", "accentunder"),
        *("movablelimits", "lspace", "rspace", "width", "height", "depth", "minsize", "maxsize", "symmetric"),
        *("largeop", "linethickness", "columnalign", "rowspacing", "columnspacing", "columnlines", "rowlines"),
        *("displaystyle", "scriptlevel", "notation", "bevelled", "linebreak", "mathsize", "voffset", "frame"),
        *("align", "subscriptshift", "superscriptshift"),
    }
)

_MOST_CELLS = 5_000


def _mathml(latex: str, options: dict[str, bool]) -> str:
    """MathML of `latex`; where the converter fails, the LaTeX itself stays readable as code."""
    display = "block" if options.get("display_mode") else "inline"
    try:
        converted = str(convert(latex, display=display))
    except Exception:  # noqa: BLE001 - the converter raises what it pleases on LaTeX that it does not know
        converted = ""
    return converted if _is_plain_mathml(converted) else f"<code>{escape(latex)}</code>"


def _is_plain_mathml(markup: str) -> bool:
    """Whether `markup` holds only known elements and attributes: the converter copies the words of a text as is."""
    try:
        elements = list(ET.fromstring(markup).iter())  # noqa: S314 - without a DOCTYPE there are no entities
    except ET.ParseError:
        return False
    names = (element.tag.rpartition("}")[2] for element in elements)
    return all(name in _MATHML for name in names) and all(
        _ATTRIBUTES.issuperset(element.attrib) for element in elements
    )


def _code(text: str, language: str, _attributes: str) -> str:
    try:
        get_lexer_by_name(language or "text")
    except ClassNotFound:
        return escape(text)
    return highlight(text, language=language or "text")


def _parser(*, is_ours: bool) -> MarkdownIt:
    options = {"html": False, "linkify": False, "highlight": _code if is_ours else None}
    parser = MarkdownIt("commonmark", options).enable("table")
    if not is_ours:
        parser.disable("image")  # the pages load none from elsewhere
    return parser.use(dollarmath_plugin, renderer=_mathml, allow_space=False, double_inline=True)


@lru_cache(maxsize=512)
def render(text: str, *, is_ours: bool = True) -> SafeString:
    """HTML of a Markdown text; code of texts that are not ours has no colours, which could be made to take minutes.

    Raw HTML in the text is shown as text and addresses with a script scheme are not linked, so the result is safe
    whoever wrote the text.
    """
    parser = _parser(is_ours=is_ours)
    lines = text.split("\n")
    if not is_ours and len(lines) * max(line.count("|") for line in lines) > _MOST_CELLS:
        parser.disable("table")  # every short row would be filled up to the longest one
    return SafeString(parser.render(text))  # the parser escapes everything it does not produce itself
