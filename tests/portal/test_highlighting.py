"""What readers see of a source is what runs: nothing in it stays invisible, and lines count as Python counts them."""

import pytest

from portal.catalog.highlighting import highlight_lines, visible
from portal.submissions.reports.differences import compare
from tests.portal.factories import bundle


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\u202e", "[U+202E]"),
        ("\u2066", "[U+2066]"),
        ("\u200b", "[U+200B]"),
        ("\u2028", "[U+2028]"),
        ("\x0c", "[U+000C]"),
        ("\x1b", "[U+001B]"),
        ("\x85", "[U+0085]"),
        ("\ufeff", "[U+FEFF]"),
    ],
)
def test_control_and_direction_characters_are_shown(hidden, shown):
    text = f"a = 1  # {hidden}\nb = 2\n"
    lines = [str(line) for _, line in highlight_lines(text, language="python")]
    assert len(lines) == 2
    assert shown in lines[0]
    assert hidden not in "".join(lines)
    [diff] = compare(bundle("a = 1\n"), bundle(text))
    assert any(shown in line.text for line in diff.lines)


def test_ordinary_text_stays_as_it_is():
    assert visible("größe = 1\t# 大小 ±\n") == "größe = 1\t# 大小 ±\n"
