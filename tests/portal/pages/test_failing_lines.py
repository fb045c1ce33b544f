"""Which lines of a source a verdict marks."""

import dataclasses

import msgspec
import pytest

from evaluator.contract import Finding, Verdict
from portal.submissions.failing_lines import failing_lines
from portal.submissions.source_links import own_frames
from tests.portal.pages import scenes

STACK = """Thread 0x01 (most recent call first):
  File "/judge/notes.py", line 57 in _answer

Current thread 0x02 (most recent call first):
  File "/site-packages/torch/c10d.py", line 3252 in all_reduce
  File "/source/solution.py", line 7 in solution
  File "/judge/shim.py", line 343 in called
"""
TRACEBACK = """Traceback (most recent call last):
  File "/source/solution.py", line 9, in solution
    return helper(tensor)
  File "/source/solution.py", line 5, in helper
    total = tensr.clone()
NameError: name 'tensr' is not defined"""
pytestmark = pytest.mark.django_db


def report(alice, local, *, findings=(), **rank):
    evaluation = scenes.lease(scenes.submit(alice), local)
    made = scenes.report(evaluation, verdict=Verdict.RUNTIME_ERROR)
    bare = msgspec.structs.replace if isinstance(made, msgspec.Struct) else dataclasses.replace
    first, *others = (bare(each, stack=None, error=None) for each in made.ranks)
    return bare(made, findings=findings, ranks=(bare(first, **rank), *others))


def lines(found):
    return [(mark.path, mark.line) for mark in failing_lines(found, paths=["solution.py"])]


def test_a_finding_names_its_line_by_itself_or_in_its_words(alice, local):
    placed = Finding(verdict=Verdict.RUNTIME_ERROR, message="no", file="solution.py", line=3)
    told = Finding(verdict=Verdict.RUNTIME_ERROR, message="rank 0 waits at solution.py:7 (collective 1)")
    assert lines(report(alice, local, findings=(placed, told), stack=STACK)) == [("solution.py", 3), ("solution.py", 7)]


def test_an_exception_marks_where_it_was_raised(alice, local):
    found = report(alice, local, error=TRACEBACK, stack=STACK)
    (mark,) = failing_lines(found, paths=["solution.py"])
    assert (mark.line, mark.why) == (5, "rank 0: NameError: name 'tensr' is not defined")


def test_a_stack_marks_the_innermost_line_of_the_authors_own(alice, local):
    found = report(alice, local, stack=STACK)
    assert lines(found) == [("solution.py", 7)]
    assert failing_lines(found, paths=["kernel.cu"]) == ()


def test_of_a_stack_the_authors_own_frames_come_first():
    assert own_frames(STACK, paths=["solution.py"]) == '  File "/source/solution.py", line 7 in solution'
    assert own_frames(TRACEBACK, paths=["solution.py"]).count("\n") == 3
    assert own_frames(STACK, paths=["kernel.cu"]) == ""


def test_the_listing_marks_the_line_and_each_file_can_be_had(client, alice, local):
    submission = scenes.judged(alice, local, verdict=Verdict.RUNTIME_ERROR, visibility="public")
    page = client.get(f"/submissions/{submission.pk}/").content.decode()
    assert 'id="solution.py-L7" class="is-marked"' in page
    answer = client.get(f"/submissions/{submission.pk}/source/")
    assert answer.content.decode() == submission.source.files.entry
    assert answer["Content-Disposition"] == 'attachment; filename="solution.py"'
    assert client.get(f"/submissions/{submission.pk}/source/", {"file": "../x"}).status_code == 404


def test_nobody_has_a_private_source_as_a_file(client, alice, local):
    submission = scenes.judged(alice, local)
    assert client.get(f"/submissions/{submission.pk}/source/").status_code == 404
