"""What a finding says of wrong values: which of an output's bounds they exceed."""

from dataclasses import replace
from random import Random

import pytest
import torch

from evaluator.contract import Verdict
from evaluator.oracle import verify
from problems import registry
from problems.inputs.values import Call
from problems.outputs import extremes
from problems.outputs.comparison import compare_output
from problems.spec.schema import Output, Placement, Tolerance

OUTPUT = Output(
    name="out",
    shape=("M",),
    placement=Placement.REPLICATED,
    tolerance=Tolerance(atol=0.1, rtol=0.0, rms=0.05, calibration="for a test"),
)
CALL = Call(
    key=bytes(32), index=0, rank=0, world_size=2, dims={"M": 100}, dtype=torch.float32, device=torch.device("cpu")
)


def judged(*errors: float, elements: int = 100) -> tuple[Verdict | None, str]:
    """The verdict and the message on ones of which the first err by so much."""
    expected = torch.ones(elements)
    actual = expected.clone()
    actual[: len(errors)] += torch.tensor(errors)
    checked = verify._judged(CALL, OUTPUT, compare_output(OUTPUT, actual, expected))  # noqa: SLF001 - ranks call no other
    return checked.verdict, checked.message


def test_within_both_bounds_there_is_nothing_to_say() -> None:
    assert judged(0.09, -0.09) == (None, "")


def test_single_elements_beyond_the_limit_are_counted() -> None:
    verdict, message = judged(0.2, 0.3)
    assert verdict is Verdict.WRONG_RESULT
    assert message.startswith(
        "output 'out' has 2 of 100 elements beyond the tolerance (largest error 3 times the limit"
    )
    assert message.endswith("the first at [0]")


def test_where_all_errors_together_are_too_large_the_message_names_their_bound() -> None:
    verdict, message = judged(*[0.09] * 100)
    assert verdict is Verdict.WRONG_RESULT
    assert "an rms error of 0.09, and 0.05 is allowed" in message
    assert "largest error 0.9 times the limit" in message
    assert "0 of 100" not in message


def test_extreme_elements_that_are_allowed_are_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extremes, "ELEMENTS_PER_EXTREME", 1000)
    monkeypatch.setattr(extremes, "LEAST_ELEMENTS", 1000)
    _, message = judged(0.3, *[0.09] * 7999, elements=8000)
    assert "an rms error of 0.0901, and 0.05 is allowed" in message
    assert "largest error 3 times the limit, 1 beyond it as allowed" in message


def test_a_regimes_own_bound_is_the_one_that_is_named() -> None:
    problem = registry.get("reducescatter_fused_rmsnorm")
    usual = replace(CALL, dims=problem.dims("tiny", 2), dtype=torch.bfloat16)
    call = replace(usual, regime=problem.regime("exact_sums"))
    examiner = verify.Examiner(problem)
    expected = examiner.expected(call)
    signs = torch.tensor([1.004, 0.996]).repeat(expected[0].shape[-1] // 2)
    (checked,) = examiner.judged(call, [expected[0] * signs], expected)
    assert "an rms error of 0.004, and 0.003 is allowed" in checked.message


@pytest.mark.parametrize(("regime", "source"), [("huge_values", 1), ("zero_values", None)])
def test_zeros_are_not_said_to_be_the_output_of_an_earlier_call(
    monkeypatch: pytest.MonkeyPatch, regime: str, source: int | None
) -> None:
    problem = registry.get("allreduce")
    examiner = verify.Examiner(problem)
    usual = replace(CALL, dims=problem.dims("tiny", 2), dtype=torch.bfloat16)
    earlier = replace(usual, index=1, regime=problem.regime(regime).drawn(Random(0)))
    returned = [tensor.bfloat16() for tensor in examiner.expected(earlier)]
    monkeypatch.setattr(examiner, "_structure", lambda *_: [])
    monkeypatch.setattr(examiner, "_tensors", lambda *_: returned)
    assert examiner.stale_source(replace(usual, index=2), [], torch.empty(0), earlier=[usual, earlier]) == source
