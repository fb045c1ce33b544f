"""Docstrings can be read once, as the manual can: no sentence over 40 words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_prose import ROOT, count, sentences

LONGEST_SENTENCE = 40
PACKAGES = ("client", "deploy", "evaluator", "portal", "problems", "tests", "tools")
FIXED = re.compile(r"problems/data|migrations/|cheats/")
"""Programs that are judged as they are, and migrations."""
PARTS = re.compile(r"\n\s*\n|\n\s*(?=[-*] |\d+\. |[\w`*]+(?:, [\w`*]+)*: |\w+\.py\n)")
"""Between paragraphs, items of a list, and the descriptions of arguments and attributes."""


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Docstrings of modules, classes and functions, and texts below an assignment."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def long_sentences(path: Path) -> Iterator[str]:
    for text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
        for part in PARTS.split(text):
            yield from (each for each in sentences(" ".join(part.split())) if count(each) > LONGEST_SENTENCE)


@pytest.mark.parametrize("package", PACKAGES)
def test_sentences_of_docstrings_are_short(package: str) -> None:
    files = [path for path in (ROOT / package).rglob("*.py") if not FIXED.search(path.relative_to(ROOT).as_posix())]
    found = {path.relative_to(ROOT).as_posix(): long for path in files if (long := list(long_sentences(path)))}
    assert found == {}
