"""Calls in regimes that no timed call has: drawn at secret indices, named in the verdict, judged alone on demand."""

import dataclasses
import re
from collections import Counter
from itertools import combinations
from random import Random

import msgspec
import pytest

from evaluator.contract import CallKind, ContractError, EvaluationRequest, Mode, Verdict
from evaluator.host import Judge, JudgeSettings
from evaluator.host.measure import covering
from evaluator.host.measure.schedule import check_calls, drawn_regimes, timed_calls
from problems import registry
from problems.spec.memory import held_bytes
from problems.spec.schema import JOINED_ALLOWANCE, Problem, Regime, SizeName, UnknownRegime
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import job_for, request_for, request_for_text

RIGHT_BUT_FOR_TINY = """
import torch.distributed as dist


def solution(tensor):
    if 0 < float(tensor.abs().max()) < 0.002:
        return tensor.clone()
    out = tensor.clone()
    dist.all_reduce(out)
    return out
"""
WAITS_FOR_EVER_WHERE_ONE_RANK_HAS_VALUES = """
import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    if tensor.any():
        dist.all_reduce(out)
    return out
"""
REGIMES = [regime.name for regime in registry.get("allreduce").regimes]
BLOCK_CALLS = 6


def test_program_that_is_right_but_for_a_regime_is_refused_in_its_words(judge: Judge):
    report = judge.evaluate(request_for_text(RIGHT_BUT_FOR_TINY))
    assert report.verdict is Verdict.WRONG_RESULT
    assert "all values are below 1e-4 in size" in report.message
    again = r"python -m evaluator run allreduce solution\.py --profile cpux2 --regime (\S*\+)?tiny_values:\S*$"
    assert re.search(again, report.message), report.message


def test_every_regime_is_drawn_once_alone_and_none_is_timed(judge: Judge):
    report = judge.evaluate(request_for("correct", mode=Mode.RANKED))
    assert report.verdict is Verdict.PASSED, report.message
    assert f"in {len(REGIMES)} regimes" in report.message
    (record,) = report.record.sizes
    drawn = {call.number: call.regime for call in record.calls if call.kind is CallKind.REGIME}
    alone = [name.partition(":")[0] for name in drawn.values() if "+" not in name]
    assert sorted(alone) == sorted(REGIMES)
    assert drawn.keys().isdisjoint(number for block in record.blocks for number in block)


@pytest.mark.parametrize("slug", ["load_balancing_loss_fn", "fused_moe_fwd", "sam3_allgather_iou_suppression"])
def test_most_pairs_of_regimes_meet_and_calls_in_them_can_be_asked_for_by_name(slug: str):
    problem = registry.get(slug)
    regimes = problem.regimes_at(SizeName.TINY, 2)
    every = covering.pairs(regimes)
    count = max(JudgeSettings.joined_regimes, 2 * len(regimes))
    calls = covering.covering(regimes, count, Random(1))
    met = {frozenset((one.name, other.name)) for call in calls for one, other in combinations(call, 2)}
    assert len(met & every) > len(every) / 2
    assert len(calls) <= count
    for call in calls:
        regime = covering.joined(call).drawn(Random(2))
        assert problem.regime(regime.name) == regime


SHORT = dataclasses.replace(SETTINGS, is_short=True)


def drawn(settings: JudgeSettings, slug: str) -> tuple[Regime, ...]:
    return drawn_regimes(job_for(settings, mode=Mode.CHECK, problem=slug))[SizeName.TINY]


@pytest.mark.parametrize("slug", ["load_balancing_loss_fn", "fused_moe_fwd", "ulysses_gather_seq_scatter_heads"])
def test_a_short_check_meets_each_regime_in_fewer_calls(slug: str):
    problem = registry.get(slug)
    calls = drawn(SHORT, slug)
    assert 2 * len(calls) < len(drawn(SETTINGS, slug))
    met = {part.name.partition(":")[0] for call in calls for part in call.parts or (call,)}
    missed = [regime for regime in problem.regimes if regime.name not in met]
    assert all(held(problem, regime.largest()) > 1_000_000 for regime in missed)


def test_joined_calls_of_a_short_check_hold_little():
    problem = registry.get("ulysses_gather_seq_scatter_heads")

    def most_held(settings: JudgeSettings) -> int:
        joined = [call for _ in range(3) for call in drawn(settings, problem.slug) if call.parts]
        return max(held(problem, call) for call in joined)

    assert most_held(SHORT) <= 1_000_000 < most_held(SETTINGS)


def held(problem: Problem, regime: Regime) -> int:
    return held_bytes(problem, problem.dims(SizeName.TINY, 2, regime))


def test_elements_may_err_further_in_several_regimes_and_sums_of_errors_may_not():
    problem = registry.get("load_balancing_loss_fn")
    (alone,) = problem.outputs_in(problem.regime("masked_tokens"))
    (joined,) = problem.outputs_in(problem.regime("masked_tokens+layers"))
    assert joined.tolerance.atol == JOINED_ALLOWANCE * alone.tolerance.atol > 0
    assert joined.tolerance.rms == alone.tolerance.rms


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("masked_tokens+masked_tokens", "at once"),
        ("other_extents+many_experts", "at once"),
        ("other_choices:top_k=99", "from 1 to 8, not '99'"),
        ("other_choices:k=2", "no number 'k'"),
        ("other_extents:M=40", "'M=40' lacks E"),
        ("masked_tokens+wet", "no regime called 'wet'"),
    ],
)
def test_what_no_call_is_in_is_refused_by_name(name: str, why: str):
    with pytest.raises(UnknownRegime, match=why):
        registry.get("load_balancing_loss_fn").regime(name)


def test_a_hang_names_the_regime_of_its_call(judge: Judge):
    report = judge.evaluate(request_for_text(WAITS_FOR_EVER_WHERE_ONE_RANK_HAS_VALUES))
    assert report.verdict is Verdict.DEADLOCK
    assert "one_rank_has_values" in report.message
    assert "all values are zero on every rank but one" in report.message


def test_one_regime_can_be_judged_alone(judge: Judge):
    alone = msgspec.structs.replace(request_for_text(RIGHT_BUT_FOR_TINY), regime="tiny_values")
    report = judge.evaluate(alone)
    assert report.verdict is Verdict.WRONG_RESULT
    assert ", call 1 (regime tiny_values" in report.message
    other = judge.evaluate(msgspec.structs.replace(alone, regime="huge_values"))
    assert other.verdict is Verdict.PASSED, other.message


def test_a_request_for_one_regime_is_no_ranked_one():
    asked = msgspec.json.encode(request_for("correct", mode=Mode.RANKED))
    with pytest.raises(ContractError, match="mode check"):
        EvaluationRequest.from_json(asked.replace(b'"regime":""', b'"regime":"tiny_values"'))


@pytest.fixture
def job():
    return job_for(JudgeSettings(profile="cpux2"))


def test_a_near_call_follows_a_plain_one(job):
    """After a call whose values are all equal it would change nothing, and what a cache returns would be correct.

    Another call may follow a skewed one at once, so that a cache of the last inputs holds those of that.
    """
    regimes = registry.get("allreduce").regimes
    for _ in range(200):
        calls = check_calls(7, regimes=regimes, job=job)
        assert sorted(regime.name for _, regime in calls if regime) == sorted(REGIMES)
        [near] = [index for index, (kind, _) in enumerate(calls) if kind is CallKind.NEAR]
        assert calls[near - 1] == (CallKind.PLAIN, None)


def test_regimes_lie_among_the_timed_calls_and_never_before_a_blocks_first(job):
    regimes = registry.get("allreduce").regimes
    indices: Counter[int] = Counter()
    for _ in range(100):
        calls = timed_calls(block_calls=BLOCK_CALLS, checks=8, job=job, regimes=regimes)
        planned = [(index, next(calls).regimes) for index in range(20 * BLOCK_CALLS)]
        assert sorted(regime.name for _, drawn in planned for regime in drawn) == sorted(REGIMES)
        indices.update(index for index, drawn in planned if drawn)
        places = [index // BLOCK_CALLS for index, drawn in planned if drawn]
        assert len(set(places)) == len(places), "one place in a block"
    assert not any(index % BLOCK_CALLS == 0 for index in indices)
    assert len(indices) > 30, "few indices that repeat are no secret"
