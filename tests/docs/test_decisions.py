"""The index of decisions has one line per number, and says what the decisions' own headings say."""

import re
from collections import Counter

from tests.docs.test_prose import ROOT

FOLDER = ROOT / "docs" / "decisions"


def test_index_has_one_line_per_decision_with_its_heading():
    listed = re.findall(
        r"^\| \[(\d{4})\]\((.+?)\) \| (.+) \|$", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE
    )
    headings = [
        (path.name[:4], path.name, path.read_text("utf-8").splitlines()[0].removeprefix(f"# {path.name[:4]} "))
        for path in sorted(FOLDER.glob("*.md"))
        if path.name != "README.md"
    ]
    assert listed == headings


def test_no_two_decisions_have_one_number():
    numbers = Counter(path.name[:4] for path in FOLDER.glob("*.md") if path.name != "README.md")
    assert {number: count for number, count in numbers.items() if count > 1 or not number.isdecimal()} == {}
