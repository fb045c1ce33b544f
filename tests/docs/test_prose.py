"""The manual can be read once, as statements can: no sentence over 30 words, no paragraph over 80."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
LONGEST_SENTENCE, LONGEST_PARAGRAPH = 30, 80
TEXTS = sorted(
    {
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
    }
)


def paragraphs(markdown: str) -> Iterator[str]:
    """The text of every paragraph and list item, without code blocks, tables, headings and displayed formulas."""
    tokens = MarkdownIt("commonmark").enable("table").parse(re.sub(r"\$\$.*?\$\$", "", markdown, flags=re.DOTALL))
    for opening, inline in pairwise(tokens):
        if opening.type == "paragraph_open":
            yield " ".join(_text(inline).split())


def _text(inline: Token) -> str:
    # A sentence may begin with code or a link, in small letters: backtick and bracket mark the beginning.
    forms = {"softbreak": " {}", "code_inline": "`{}`", "link_open": "[", "link_close": "]"}
    return "".join(forms.get(each.type, "{}").format(each.content) for each in inline.children or ())


def sentences(paragraph: str) -> list[str]:
    return re.split(r"(?<=[.!?])[)\"”]* +(?=[\"“(]?[A-Z0-9$`[])", paragraph)


def count(text: str) -> int:
    """Words of a text; a formula between dollar signs is one."""
    return sum(1 for word in re.sub(r"\$[^$]+\$", "formula", text).split() if re.search(r"\w", word))


def long_parts(path: Path) -> list[str]:
    """The sentences and paragraphs of a Markdown file that are too long."""
    return [
        part
        for paragraph in paragraphs(path.read_text(encoding="utf-8"))
        for part, limit in (
            (paragraph, LONGEST_PARAGRAPH),
            *((sentence, LONGEST_SENTENCE) for sentence in sentences(paragraph)),
        )
        if count(part) > limit
    ]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sentences_and_paragraphs_are_short(path: Path) -> None:
    assert long_parts(path) == []
