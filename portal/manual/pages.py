"""Which pages the manual has, in which order, and what stands in them; read once per process."""

import posixpath
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.urls import reverse

from portal.manual.rendering import Rendered, render

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
