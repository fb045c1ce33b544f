"""The manual under /docs/: every page is in the navigation and can be read, and no link is broken."""

import html
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from portal.manual import pages, search

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
FILES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
SHOWN = [path for path in FILES if path != "README.md"]
"""The manual's own front page is for MkDocs and GitHub; the site has /docs/."""


class Elements(HTMLParser):
    """Where links and pictures of an article lead, and what can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.targets += [values[name] for name in ("href", "src") if name in values]
        self.anchors |= {values["id"]} if "id" in values else set()


@cache
def article(path: str) -> Elements:
    return Elements(pages.rendered_page(path).html)


def test_every_page_but_the_decisions_is_in_the_navigation_once() -> None:
    listed = [page.path for _, listed in pages.sections() for page in listed]
    assert sorted(listed) == sorted(
        path for path in SHOWN if not path.startswith("decisions/") or path == "decisions/README.md"
    )


@pytest.mark.django_db
@pytest.mark.parametrize("path", SHOWN)
def test_every_page_can_be_read_and_says_where_it_stands(client, path) -> None:
    answer = client.get(pages.page_url(path))
    assert answer.status_code == 200
    text = answer.content.decode()
    assert text.count("<h1") == 1
    nav = Elements(text.partition('aria-label="The manual"')[2])
    assert {page.url for _, listed in pages.sections() for page in listed} <= set(nav.targets)


@pytest.mark.parametrize("path", SHOWN)
def test_every_link_into_the_manual_leads_to_a_page_and_a_heading(path) -> None:
    for target in article(path).targets:
        address, _, anchor = target.partition("#")
        if address and not address.startswith("/docs/"):
            continue
        wanted = pages.page_at(address.removeprefix("/docs/")) if address else pages.page_at(_address(path))
        if wanted is None:
            assert address == "/docs/" or pages.file_at(address.removeprefix("/docs/")), target
        elif anchor:
            assert anchor in article(wanted.path).anchors, target


def _address(path: str) -> str:
    return pages.page_url(path).removeprefix("/docs/")


@pytest.mark.django_db
def test_every_link_elsewhere_on_the_site_leads_to_a_page(client) -> None:
    found = {target for path in SHOWN for target in article(path).targets}
    elsewhere = {target for target in found if target.startswith("/") and not target.startswith("/docs/")}
    assert "/problems/allreduce/" in elsewhere
    assert [target for target in sorted(elsewhere) if client.get(target).status_code != 200] == []


def test_the_index_leads_to_every_page(client, db) -> None:
    links = set(Elements(client.get("/docs/").content.decode()).targets)
    assert {page.url for _, listed in pages.sections() for page in listed} <= links
    assert "/docs/#manual" in Elements(client.get("/").content.decode()).targets


def test_pictures_are_served_with_their_type(client, db) -> None:
    pictures = {target for path in SHOWN for target in article(path).targets if target.endswith((".svg", ".png"))}
    assert "/docs/images/judge.svg" in pictures
    for picture in pictures:
        answer = client.get(picture)
        assert answer.status_code == 200
        assert answer["Content-Type"] in {"image/svg+xml", "image/png"}


def test_an_address_without_its_slash_leads_to_the_page(client, db) -> None:
    answer = client.get("/docs/judge/sandbox")
    assert (answer.status_code, answer["Location"]) == (301, "/docs/judge/sandbox/")


@pytest.mark.parametrize(
    "address",
    [
        "nothing/",
        "nothing.png",
        "judge/README.md",
        "README/",
        "../manage.py",
        "images/../../manage.py",
        "judge/../judge/",
        "%2e%2e/manage.py",
        "/etc/passwd",
        "images/",
        "images/%00.png",
    ],
)
def test_what_is_not_on_the_list_is_not_there(client, db, address) -> None:
    assert client.get(f"/docs/{address}").status_code == 404


def found(client, text: str) -> list[str]:
    """The addresses that a search lists, in its order."""
    answer = client.get("/search/", {"q": text})
    assert answer.status_code == 200
    targets = Elements(answer.content.decode()).targets
    return [target for target in targets if re.match(r"/docs/\w", target)]


def test_the_search_finds_pages_by_title_and_heading(client, db) -> None:
    assert search._index() is search._index(), "made once, not for each visitor"  # noqa: SLF001
    by_title = client.get("/search/?q=known gaps").content.decode()
    assert '<a href="/docs/judge/known-gaps/">Known gaps</a>' in by_title
    by_heading = client.get("/search/?q=throttling").content.decode()
    assert '<a href="/docs/judge/timing-and-score/#throttling">Throttling</a>' in by_heading
    assert "Timing and score" in by_heading


def test_the_search_finds_words_that_only_the_text_has_and_marks_them(client, db) -> None:
    answer = client.get("/search/?q=PKB_NODE_USERS").content.decode()
    assert "/docs/gpu-node/#check-the-sandbox" in Elements(answer).targets
    assert "<mark>PKB_NODE_USERS</mark>" in answer


def test_the_search_finds_other_forms_and_beginnings_of_a_word(client, db) -> None:
    assert "/docs/judge/timing-and-score/#throttling" in found(client, "throttle")
    assert "/docs/judge/timing-and-score/#throttling" in found(client, "thrott")


def test_the_search_wants_every_word_and_lists_decisions_last(client, db) -> None:
    assert found(client, "seccomp mathml") == []
    decisions = [address.startswith("/docs/decisions/") for address in found(client, "seccomp")]
    assert decisions == sorted(decisions)
    assert {False, True} == set(decisions)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"sandbox" (', "sandbox"),
        ("NEAR(rank wire)", "NEAR rank wire"),
        ("title : sandbox", "title sandbox"),
        ("-sandbox", "sandbox"),
        ("^sandbox", "sandbox"),
        ("rank\x02wire", "rank wire"),
        ('"', ""),
        ("*", ""),
        ("%", ""),
    ],
)
def test_the_search_takes_operators_for_words(client, db, text, words) -> None:
    assert found(client, text) == (found(client, words) if words else [])


@pytest.mark.parametrize("path", SHOWN)
def test_the_search_cuts_a_page_at_its_headings_and_keeps_its_words(path) -> None:
    rendered = pages.rendered_page(path)
    cut = list(search.passages(rendered))
    assert [(heading, anchor) for heading, anchor, _ in cut] == [
        (rendered.title, ""),
        *((heading["name"], heading["id"]) for heading in rendered.headings),
    ]
    kept = " ".join(f"{heading} {text}" for heading, _, text in cut)
    shown = html.unescape(re.sub(r"<[^>]+>", "", rendered.html))
    assert set(re.findall(r"\w+", shown)) - set(re.findall(r"\w+", kept)) == set()


@pytest.mark.parametrize("path", FILES)
def test_lists_code_and_tables_are_the_same_here_as_on_github(path) -> None:
    """GitHub reads CommonMark; in MkDocs and here what stands inside a list needs four spaces."""
    here, there = (
        pages.rendered_page(path).html,
        MarkdownIt("commonmark").enable("table").render((DOCS / path).read_text()),
    )
    for tag in ("li", "ul", "ol", "pre", "tr", "h1", "h2", "h3", "blockquote"):
        assert len(re.findall(rf"<{tag}\b", here)) == len(re.findall(rf"<{tag}\b", there)), tag


def test_the_built_manual_asks_no_other_host_for_anything(tmp_path) -> None:
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"},
    )
    built = "".join(path.read_text() for path in tmp_path.rglob("*.html"))
    assert re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]*', built) == []
    assert (tmp_path / "search" / "search_index.json").is_file()
    assert {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("judge/*/index.html")} >= {
        "judge/sandbox",
        "judge/verdicts",
    }


def test_the_configuration_asks_for_strict_links() -> None:
    links = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["validation"]["links"]
    assert set(links.values()) == {"warn"}
