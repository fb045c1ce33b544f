"""Markdown of our own to HTML as the site shows it. The texts are part of the program, so raw HTML in them is kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from django.utils.safestring import SafeString
from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

Address = Callable[[str], str | None]
"""Where a link leads on the site; None where the site does not show what it names."""

DEEPEST = 3
"""The level of the deepest headings that contents and search name."""


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A page as HTML, title included; `headings` are those below it as Python-Markdown has them: level, name and id."""

    title: str
    html: SafeString
    headings: tuple[dict[str, Any], ...]


def render(text: str, *, extensions: Sequence[str | dict[str, Any]], address: Address) -> Rendered:
    """HTML of a page.

    Args:
        text: the Markdown; its first heading is the title.
        extensions: as mkdocs.yml lists them, so that both renderings agree.
        address: finds the address of every link and picture.
    """
    names = [name for entry in extensions for name in ([entry] if isinstance(entry, str) else entry)]
    options = {name: values for entry in extensions if isinstance(entry, dict) for name, values in entry.items()}
    parser = Markdown(extensions=[*names, _OnTheSite(address)], extension_configs=options)
    # What is wider than the page scrolls, by keyboard too; code has the colours of static/css/code.css.
    html = (
        parser.convert(text)
        .replace("<pre>", '<pre tabindex="0">')
        .replace('<div class="highlight">', '<div class="hl">')
    )
    found = _flat(getattr(parser, "toc_tokens", []))
    title = found[0]["name"] if found else ""
    below = tuple(heading for heading in found[1:] if heading["level"] <= DEEPEST)
    return Rendered(title=title, html=SafeString(html), headings=below)


def _flat(tokens: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for token in tokens for each in (token, *_flat(token["children"]))]


class _OnTheSite(Extension):
    """Links and pictures with the site's addresses, and tables that scroll by themselves."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the library's name
        # After inline Markdown (20) has made the links, and before the table of contents (5) reads the headings.
        md.treeprocessors.register(_Dressing(md, self._address), "on_the_site", 8)


class _Dressing(Treeprocessor):
    def __init__(self, md: Markdown, address: Address) -> None:
        super().__init__(md)
        self._address = address

    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            self._lead(link, "href")
        for picture in root.iter("img"):
            self._lead(picture, "src")
        for parent in list(root.iter()):
            for place, child in enumerate(list(parent)):
                if child.tag == "table":
                    parent[place] = _boxed(child)

    def _lead(self, element: Element, attribute: str) -> None:
        found = self._address(element.attrib.pop(attribute, ""))
        if found is not None:
            element.set(attribute, found)


def _boxed(table: Element) -> Element:
    """The table in a box that scrolls, and that a keyboard reaches."""
    table.set("class", "data")
    first = " ".join("".join(cell.itertext()) for cell in table.iter("th")).strip()
    box = Element("div", {"class": "table-box", "tabindex": "0", "role": "group", "aria-label": f"Table: {first}"})
    box.tail, table.tail = table.tail, None
    for cell in table.iter("th"):
        cell.set("scope", "col")
    box.append(table)
    return box
