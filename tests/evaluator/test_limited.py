"""Reading in a process that can be ended: what takes too long or too much ends there, and the next reading works."""

import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from evaluator.contract import SourceBundle, SourceFile, Verdict
from evaluator.errors import Cancelled, EvaluatorError, LimitExceeded, NodeFailure
from evaluator.host import Judge
from evaluator.host.process import limited, procfs
from evaluator.host.process.deadlines import NO_DEADLINES, Deadlines
from tests.evaluator.judging_help import request_for, request_for_text

pytestmark = pytest.mark.usefixtures("alone")


def call(function: str, text: object, *, seconds: float = 30, **keywords: object) -> str:
    """A call in a process of its own, with a gigabyte of memory."""
    return limited.call(
        function,
        text,
        seconds=seconds,
        memory_bytes=1024**3,
        **{"deadlines": NO_DEADLINES} | keywords,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("function", "text", "words"),
    [
        ("time:sleep", 1000.0, "longer than 0.5 s"),
        ("builtins:eval", "'x' * 10**10", "memory"),
        ("builtins:eval", "__import__('os')._exit(3)", "ended"),
        ("builtins:eval", "'x' * 70_000_000", "answer"),
    ],
)
def test_what_goes_over_a_limit_is_ended(function, text, words):
    with pytest.raises(LimitExceeded, match=words):
        call(function, text, seconds=0.5 if function == "time:sleep" else 30)


def test_what_nobody_wants_any_more_is_ended():
    before = set(procfs.descendants(os.getpid()))
    wanted = iter([True, True])  # for two polls
    with pytest.raises(Cancelled):
        call("time:sleep", 1000.0, seconds=120, deadlines=Deadlines(math.inf, lambda: not next(wanted, False)))
    assert set(procfs.descendants(os.getpid())) == before


def test_while_it_works_this_process_goes_on():
    """A regular expression that goes back and forth holds its interpreter's lock for as long as it runs."""
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(call, "builtins:eval", "__import__('re').match('(a*)*b', 'a' * 40)", seconds=3)
        beats = 0
        while not reading.done():
            beats += 1
            time.sleep(0.01)
        assert beats > 10
        with pytest.raises(LimitExceeded):
            reading.result()


def test_what_it_raises_is_our_error():
    with pytest.raises(EvaluatorError, match="ZeroDivisionError"):
        call("builtins:eval", "1 / 0")


def test_one_that_starts_late_is_the_nodes_trouble_and_does_not_stay():
    """However long the reading itself may take: an author has no part in it."""
    before = set(procfs.descendants(os.getpid()))
    with pytest.raises(NodeFailure, match="does not start"):
        call("builtins:eval", "1", start_s=0.0)
    assert set(procfs.descendants(os.getpid())) == before


def test_what_it_prints_is_not_its_answer():
    assert call("builtins:eval", "print('PASSED') or 'no'") == "no"


def test_a_cancelled_evaluation_does_not_wait_for_its_source_to_be_read(judge: Judge):
    """It is cancelled once the reading has begun."""
    has_begun = threading.Event()
    with pytest.raises(Cancelled, match="reading"):
        judge.evaluate(
            request_for("correct"),
            progress=lambda _stage, words, _fraction: has_begun.set() if words == "reading the source" else None,
            cancelled=has_begun.is_set,
        )
    assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED


def test_a_source_that_takes_too_much_to_read_is_over_a_limit_and_the_next_is_judged(judge: Judge):
    """Brackets in brackets: more memory for its tree than the reading may take, or too many parts."""
    many = "x = [" + "[]," * 170_000 + "]\ndef solution(tensor):\n    return tensor\n"
    assert judge.evaluate(request_for_text(many)).verdict is Verdict.LIMIT_EXCEEDED
    request = request_for("correct")
    paths = SourceBundle(files=(*request.source.files, SourceFile(path="solution.py/a.py", text="")))
    assert judge.evaluate(msgspec.structs.replace(request, source=paths)).verdict is Verdict.LIMIT_EXCEEDED
    assert judge.evaluate(request).verdict is Verdict.PASSED
