"""Logs that lead to the lines they speak of."""

import pytest

from portal.submissions.reports.failing_lines import linked


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('File "/source/solution.py", line 7, in solution', 7),
        ("solution.py:12: error", 12),
        ("a/kernels.cu(3): error: expected a ;", 3),
    ],
)
def test_a_mention_of_a_line_becomes_a_link(text, line):
    html = linked(text, paths=["solution.py", "a/kernels.cu"])
    assert f'-L{line}">' in html


def test_other_files_and_markup_stay_text():
    html = linked('<b>my_solution.py:3</b> torch/nn.py:4 & "x"', paths=["solution.py"])
    assert "<a " not in html
    assert "&lt;b&gt;" in html


def test_a_name_cannot_carry_markup():
    html = linked('"><script>.py:1', paths=['"><script>.py'])
    assert "<script" not in html


def test_nothing_to_link_leaves_the_text():
    assert linked("a < b", paths=[]) == "a &lt; b"
