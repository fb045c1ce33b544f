"""Which lines of a source a verdict marks."""

import re

import msgspec
import pytest
from django.utils import timezone

from evaluator.contract import Delivery, Finding, SourceBundle, SourceFile, Verdict
from portal.submissions import actions
from portal.submissions.reports.failing_lines import failing_lines, marks_for_scripts, own_frames
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


@pytest.fixture
def evaluation(alice, local):
    return scenes.lease(scenes.submit(alice, visibility="public"), local)


def report(evaluation, *, verdict=Verdict.RUNTIME_ERROR, findings=(), waiting=()):
    """A report with `findings`, whose ranks wait at the lines `waiting`; None: elsewhere."""
    made = scenes.report(evaluation, verdict=verdict)
    ranks = tuple(
        msgspec.structs.replace(rank, file="solution.py", line=line, is_waiting=line is not None)
        for rank, line in zip(made.ranks, waiting or (None, None), strict=True)
    )
    return msgspec.structs.replace(made, findings=findings, ranks=ranks)


def lines(found):
    return [(mark.line, mark.is_quiet) for mark in failing_lines(found, paths=["solution.py"])]


RAISED = Finding(
    verdict=Verdict.RUNTIME_ERROR,
    message="rank 1 in call 1: no (rank 0 waits in all_reduce called at solution.py:7)",
    rank=1,
    file="solution.py",
    line=5,
)


def test_a_finding_marks_its_own_line_and_those_who_wait_are_marked_quietly(evaluation):
    found = report(evaluation, findings=(RAISED,), waiting=(7, None))
    assert lines(found) == [(5, False), (7, True)]
    failing, waiting = failing_lines(found, paths=["solution.py"])
    assert failing.why == RAISED.message
    assert waiting.why == "rank 0 waits here"
    assert failing_lines(found, paths=["kernel.cu"]) == ()
    assert marks_for_scripts((waiting,)) == "solution.py:7:waits:rank 0 waits here"


def test_a_line_at_which_one_fails_and_another_waits_is_marked_once_as_failing(evaluation):
    assert lines(report(evaluation, findings=(RAISED,), waiting=(5, None))) == [(5, False)]


def test_in_a_deadlock_each_line_at_which_ranks_wait_is_one_of_the_failure(evaluation):
    apart = report(evaluation, verdict=Verdict.DEADLOCK, waiting=(7, 9))
    assert lines(apart) == [(7, False), (9, False)]
    assert [mark.ranks for mark in failing_lines(apart, paths=["solution.py"])] == ["rank 0", "rank 1"]
    (together,) = failing_lines(report(evaluation, verdict=Verdict.DEADLOCK, waiting=(7, 7)), paths=["solution.py"])
    assert together.ranks == "ranks 0, 1"


def test_a_pass_marks_nothing(evaluation):
    assert lines(report(evaluation, verdict=Verdict.PASSED, waiting=(7, 7))) == []


def test_of_a_stack_the_authors_own_frames_come_first():
    assert own_frames(STACK, paths=["solution.py"]) == '  File "/source/solution.py", line 7 in solution'
    assert own_frames(TRACEBACK, paths=["solution.py"]).count("\n") == 3
    assert own_frames(STACK, paths=["kernel.cu"]) == ""


def test_the_page_marks_both_kinds_of_line_and_each_file_can_be_had(client, local, evaluation):
    submission = evaluation.submission
    made = report(evaluation, findings=(RAISED,), waiting=(7, None))
    assert actions.record_delivery(Delivery(lease=evaluation.lease, node=local.name, report=made), timezone.now())
    page = client.get(f"/submissions/{submission.pk}/").content.decode()
    assert 'id="solution.py-L5" class="is-marked"' in page
    assert 'id="solution.py-L7" class="is-waiting"><td>7<td data-note="rank 0 waits here">' in page
    assert 'Where: rank 1, <a href="#solution.py-L5">solution.py:5</a></p>' in page
    answer = client.get(f"/submissions/{submission.pk}/source/")
    assert answer.content.decode() == submission.source.files.entry
    assert answer["Content-Disposition"] == 'attachment; filename="solution.py"'
    assert client.get(f"/submissions/{submission.pk}/source/", {"file": "../x"}).status_code == 404


def test_a_failure_in_a_long_source_shows_the_lines_around_it_and_links_to_the_whole(client, alice, local):
    text = scenes.SOLUTION.format(remark="long") + "".join(
        f"first_{number}, second_{number} = compute({number}, 'a word'), [each for each in range({number})]\n"
        for number in range(6000)
    )
    made = actions.create_submission(
        alice,
        problem="allreduce",
        backend="pytorch",
        profile="cpux2",
        mode="check",
        files=SourceBundle(files=(SourceFile(path="solution.py", text=text),)),
        visibility="public",
    )
    evaluation = scenes.lease(made.submission, local)
    address = f"/submissions/{made.submission.pk}/"
    assert 'id="solution.py-L5000"' in client.get(address).content.decode(), "before the end any line may be marked"
    there = msgspec.structs.replace(RAISED, line=5000)
    found = report(evaluation, findings=(there,), waiting=(5005, None))
    assert actions.record_delivery(Delivery(lease=evaluation.lease, node=local.name, report=found), timezone.now())
    answer = client.get(address)
    page = answer.content.decode()
    assert len(answer.content) <= 150_000
    assert 'id="solution.py-L5000" class="is-marked"' in page
    assert 'id="solution.py-L5005" class="is-waiting"' in page
    assert ('id="solution.py-L1"' in page, 'id="solution.py-L3000"' in page) == (True, False)
    assert re.search(r'id="solution.py-L4988" data-gap="\d{4}"', page)
    assert 'href="?source=whole#source"' in page
    assert 'id="solution.py-L3000"' in client.get(f"{address}?source=whole").content.decode()


def test_nobody_has_a_private_source_as_a_file(client, alice, local):
    submission = scenes.judged(alice, local)
    assert client.get(f"/submissions/{submission.pk}/source/").status_code == 404
