"""Which pages the manual has, in which order, and what stands in them, as HTML; read once per process.

The texts are part of the program, so raw HTML in them is kept.
"""

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import yaml
from django.conf import settings
from django.urls import reverse
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


_CONTENT_TYPES = {".png": "image/png", ".svg": "image/svg+xml", ".jsonl": "application/x-ndjson"}
"""Files beside the pages that are served, by their ending."""

_INDEX = "README.md"
_STATEMENTS = "../problems/catalog/"


@dataclass(frozen=True, kw_only=True)
class NavPage:
    """A page in the navigation: its title there, and its file below docs/."""

    title: str
    path: str

    @property
    def url(self) -> str:
        return page_url(self.path)


@dataclass(frozen=True, kw_only=True)
class Page(Rendered):
    """One page of the manual; `section` is empty and the neighbours are None where it is not in the navigation."""

    path: str
    section: str
    before: NavPage | None
    after: NavPage | None


def _root() -> Path:
    return Path(settings.BASE_DIR) / "docs"


@cache
def paths() -> frozenset[str]:
    """Every file of the manual below docs/, as in `judge/sandbox.md`: what is not in this list is not served."""
    found = (path for path in _root().rglob("*") if path.suffix in {".md", *_CONTENT_TYPES} and path.is_file())
    return frozenset(path.relative_to(_root()).as_posix() for path in found)


@cache
def sections() -> tuple[tuple[str, tuple[NavPage, ...]], ...]:
    """The navigation of mkdocs.yml without the manual's own front page: titles, each with its pages."""
    entries = _configuration()["nav"]
    return tuple(
        (title, tuple(NavPage(title=name, path=path) for page in pages for name, path in page.items()))
        for entry in entries
        for title, pages in entry.items()
        if isinstance(pages, list)
    )


@cache
def _configuration() -> dict[str, Any]:
    text = (Path(settings.BASE_DIR) / "mkdocs.yml").read_text(encoding="utf-8")
    configuration: dict[str, Any] = yaml.safe_load(text)
    return configuration


def page_url(path: str) -> str:
    """The address of the page made of a file, as MkDocs has it: `judge/README.md` is /docs/judge/."""
    folder, name = posixpath.split(path)
    shown = folder if name == _INDEX else path.removesuffix(".md")
    return reverse("docs") + (f"{shown}/" if shown else "")


def page_paths() -> tuple[str, ...]:
    """The files of all pages but the manual's own front page: those of the navigation in its order, then the others."""
    listed = [page.path for _, pages in sections() for page in pages]
    others = sorted(path for path in paths() if path.endswith(".md") and path not in {*listed, _INDEX})
    return (*listed, *others)


@cache
def _by_url() -> dict[str, str]:
    return {page_url(path): path for path in page_paths()}


def page_at(address: str) -> Page | None:
    """The page under /docs/`address`; None where there is none."""
    path = _by_url().get(reverse("docs") + address)
    return None if path is None else _page(path)


@cache
def _page(path: str) -> Page:
    order = [(title, page) for title, pages in sections() for page in pages]
    at = next((number for number, (_, page) in enumerate(order) if page.path == path), None)
    return Page(
        **vars(rendered_page(path)),
        path=path,
        section="" if at is None else order[at][0],
        before=None if not at else order[at - 1][1],
        after=None if at is None or at + 1 == len(order) else order[at + 1][1],
    )


@cache
def rendered_page(path: str) -> Rendered:
    """The page made of a file of `paths`, as HTML."""
    extensions = _configuration()["markdown_extensions"]
    text = (_root() / path).read_text(encoding="utf-8")
    return render(text, extensions=extensions, address=lambda target: link_address(path, target))


def link_address(path: str, target: str) -> str | None:
    """Where a link of the page made of `path` leads on the site; None where the site does not show what it names."""
    if target.startswith(("https://", "http://", "mailto:", "#")):
        return target
    name, hash_mark, anchor = target.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if wanted in paths():
        shown = page_url(wanted) if wanted.endswith(".md") else reverse("docs") + wanted
        return shown + hash_mark + anchor
    if wanted.startswith(_STATEMENTS):
        folder = wanted.removeprefix(_STATEMENTS).partition("/")[0]
        return reverse("explorer:problem", args=[folder.partition("_")[2]])
    return None


def file_at(address: str) -> tuple[bytes, str] | None:
    """The picture or data under /docs/`address` with its content type; None where there is none."""
    file = _root() / address
    is_file = address in paths() and file.suffix in _CONTENT_TYPES
    return (file.read_bytes(), _CONTENT_TYPES[file.suffix]) if is_file else None
