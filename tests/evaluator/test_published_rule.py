"""Mode published: the published rule refuses what allclose refuses, and the report says how often it timed."""

import msgspec
import pytest
import torch

from evaluator.contract import Mode, Verdict
from evaluator.host import Judge, JudgeSettings
from evaluator.oracle.published_rule import difference
from tests.evaluator.judging_help import request_for_text

RIGHT = """
import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out
"""
SLIGHTLY_WRONG = f"{RIGHT.rstrip()} * (1 + 2**-8)"
"""One bit of bfloat16 off: within 1e-2, and beyond our bound."""


@pytest.fixture(scope="module")
def judge():
    with Judge(JudgeSettings(profile="cpux2", allow_unsandboxed=True)) as judge:
        yield judge


def judged(judge, text, mode):
    return judge.evaluate(msgspec.structs.replace(request_for_text(text), mode=mode))


def test_a_right_program_passes_and_is_timed_back_to_back(judge: Judge):
    report = judged(judge, RIGHT, Mode.PUBLISHED)
    assert report.verdict is Verdict.PASSED, report.message
    assert "correct by the published rule in 5 usual calls, which is less than other modes check" in report.message
    assert (report.timing, report.published.size) == (None, "tiny")
    assert 1 <= report.published.timed_calls <= 100
    assert report.published.speedup > 0


def test_a_program_that_is_off_by_a_bit_passes_by_the_published_rule_alone(judge: Judge):
    assert judged(judge, SLIGHTLY_WRONG, Mode.PUBLISHED).verdict is Verdict.PASSED
    assert judged(judge, SLIGHTLY_WRONG, Mode.CHECK).verdict is Verdict.WRONG_RESULT


def test_a_program_that_computes_something_else_is_refused_with_rank_and_output(judge: Judge):
    report = judged(judge, f"{RIGHT.rstrip()} + 9", Mode.PUBLISHED)
    assert report.verdict is Verdict.WRONG_RESULT
    assert "wrong by the published rule: rank 0: " in report.message
    assert "of output 'out' are further from the reference than 0.01" in report.message


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (torch.tensor([1.0, 100.0]), ""),
        (torch.tensor([1.015, 100.9]), ""),  # 0.01 + 0.01 * 1 and 0.01 + 0.01 * 100
        (torch.tensor([1.03, 100.0]), "1 of 2 elements of output 'x'"),
        (torch.tensor([1.0, float("nan")]), "1 of 2 elements of output 'x'"),
        (torch.tensor([[1.0, 100.0]]), "output 'x' is float32[1, 2], the reference's float32[2]"),
        (torch.tensor([1.0, 100.0], dtype=torch.bfloat16), "output 'x' is bfloat16[2]"),
        ("a list", "output 'x' is a list"),
    ],
)
def test_elements_are_compared_as_allclose_does(mine, words):
    found = difference([mine], [torch.tensor([1.0, 100.0])], names=["x"])
    assert found.startswith(words) if words else found == ""


def test_a_missing_output_is_a_difference():
    assert difference([], [torch.zeros(1)], names=["x"]) == "0 output(s), the reference has 1"
