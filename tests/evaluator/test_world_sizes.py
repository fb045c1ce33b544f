"""What passes a check on two CPU ranks is checked on four as well."""

import dataclasses
from pathlib import Path

import pytest

from evaluator.contract import Mode, Verdict
from evaluator.host import Judge
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import request_for, request_for_text

FOR_EXACTLY_TWO = """
import torch
import torch.distributed as dist


def solution(tensor):
    other, peer = torch.empty_like(tensor), dist.get_rank() ^ 1
    for work in (dist.isend(tensor, peer), dist.irecv(other, peer)):
        work.wait()
    return tensor + other
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory):
    work_dir: Path = tmp_path_factory.mktemp("slot")
    settings = dataclasses.replace(SETTINGS, work_dir=work_dir, warm=False, cross_check=True)
    with Judge(settings) as judge:
        yield judge
    assert list(work_dir.iterdir()) == []


def test_program_for_exactly_two_ranks_is_refused_on_four(judge: Judge):
    report = judge.evaluate(request_for_text(FOR_EXACTLY_TWO))
    assert report.verdict is Verdict.WRONG_RESULT
    assert report.message.startswith("on 4 ranks, after it was correct on 2: rank ")
    assert report.world_sizes == (2,)
    assert len(report.ranks) == 4


def test_right_program_is_right_on_both(judge: Judge):
    seen: list[str] = []
    report = judge.evaluate(
        request_for("correct", mode=Mode.RANKED), progress=lambda _stage, detail, *_others: seen.append(detail)
    )
    assert report.verdict is Verdict.PASSED
    recorded = [detail for detail in seen if "recording" in detail]
    assert recorded
    assert not any(detail.startswith("on 4 ranks") for detail in recorded), "once tells what it does"
    assert report.message.endswith("; correct on 4 ranks too")
    assert report.world_sizes == (2, 4)
    assert [found.message for found in report.findings] == [report.message]
