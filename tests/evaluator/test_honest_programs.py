"""Correct programs that an earlier judge refused: what is unusual in them is allowed."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.contract import Verdict
from evaluator.hardware import profiles
from evaluator.host import Judge
from evaluator.judging.source_rules import check_source
from problems import registry
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import request_for_text

REDUCE = """import torch.distributed as dist


def work(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out


"""

TIMER = """import threading

import torch
import torch.distributed as dist

_is_first = True


def solution(tensor):
    global _is_first
    mine, theirs = torch.ones(1), torch.zeros(1)
    if _is_first and dist.get_rank() == 0:
        threading.Timer(6.0, dist.send, (mine, 1)).start()
    if _is_first:
        dist.recv(theirs, 1 - dist.get_rank())
        if dist.get_rank() == 1:
            dist.send(mine, 0)
    _is_first = False
    out = tensor.clone()
    dist.all_reduce(out)
    return out
"""

BOUND = {
    "through globals()": REDUCE + "globals()['solution'] = work\n",
    "by a walrus": REDUCE + "print((solution := work))\n",
    "a fallback inside if": "def solution():\n    raise NotImplementedError\n\n\n"
    + REDUCE
    + "if dist.is_available():\n    def solution(tensor):\n        return work(tensor)\n",
    "by setattr": REDUCE + "import sys\n\nsetattr(sys.modules[__name__], 'solution', work)\n",
    "by a function": REDUCE + "def bind():\n    global solution\n    solution = work\n\n\nbind()\n",
}
ANOTHER_SHAPE = REDUCE + "def solution(tensor):\n    tensor.unsqueeze_(0)\n    return work(tensor)[0]\n"


@pytest.mark.parametrize("way", BOUND)
def test_the_name_may_be_bound_in_any_way(way: str) -> None:
    request, profile = request_for_text(BOUND[way]), profiles.get("cpux2")
    problem, backend = registry.get(request.problem), request.backend
    assert not check_source(problem, request.source, backend=backend, profile=profile, mode=request.mode)


@pytest.mark.parametrize("text", [BOUND["by a function"], ANOTHER_SHAPE], ids=["bound by a function", "another shape"])
def test_an_honest_program_passes(judge: Judge, text: str) -> None:
    report = judge.evaluate(request_for_text(text))
    assert report.verdict is Verdict.PASSED, report.message


def test_an_argument_with_another_value_is_noticed_whatever_its_shape(judge: Judge) -> None:
    text = REDUCE + "def solution(tensor):\n    out = work(tensor)\n    tensor.add_(1).unsqueeze_(0)\n    return out\n"
    assert judge.evaluate(request_for_text(text)).verdict is Verdict.INPUT_MUTATED


def test_a_mask_may_have_any_byte_for_true(judge: Judge) -> None:
    slug = "sam3_allgather_iou_suppression"
    text = registry.reference_source(slug) + (
        "\n\n_reference = solution\n\n\ndef solution(*arguments):\n    *rest, mask = _reference(*arguments)\n"
        "    mask = mask.clone()\n    mask.view(torch.uint8).mul_(255)\n    return (*rest, mask)\n"
    )
    report = judge.evaluate(request_for_text(text, problem=slug))
    assert report.verdict is Verdict.PASSED, report.message


def test_outputs_may_be_a_named_tuple_of_either_sort(judge: Judge) -> None:
    slug = "dinov2_distributed_knn"
    text = registry.reference_source(slug) + (
        "\n\nimport collections\n\nPair = collections.namedtuple('Pair', 'similarities labels')\n"
        "_reference, _forms = solution, [torch.return_types.topk, lambda pair: Pair(*pair)]\n\n\n"
        "def solution(*arguments):\n    _forms.reverse()\n    return _forms[0](_reference(*arguments))\n"
    )
    report = judge.evaluate(request_for_text(text, problem=slug))
    assert report.verdict is Verdict.PASSED, report.message


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Judge]:
    with Judge(dataclasses.replace(SETTINGS, work_dir=tmp_path, call_limit_s=20.0, warm=False)) as judge:
        yield judge


def test_ranks_that_a_timer_will_wake_are_no_deadlock(patient: Judge) -> None:
    report = patient.evaluate(request_for_text(TIMER))
    assert report.verdict is Verdict.PASSED, report.message


@pytest.mark.parametrize("ending", ["out", "out.T.contiguous().T"])
def test_a_result_is_contiguous_where_the_statement_asks_for_it(judge: Judge, ending: str) -> None:
    slug = "ulysses_all_gather_into_tensor_primitive"
    text = registry.reference_source(slug).replace("return out", f"return {ending}")
    report = judge.evaluate(request_for_text(text, problem=slug))
    if ending == "out":
        assert report.verdict is Verdict.PASSED, report.message
    else:
        assert report.verdict is Verdict.WRONG_SHAPE
        assert "not contiguous, as the statement asks" in report.message
