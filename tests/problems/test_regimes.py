"""Regimes of every problem: honest programs pass, and a program that is right but for the regime is refused in it."""

import contextlib
import hashlib
import inspect
from collections.abc import Iterator

import pytest
import torch

from problems import registry
from problems.harness.calibration import honest_programs, narrow_programs
from problems.harness.implementation import load
from problems.harness.ranks import RankFailure, Ranks
from problems.harness.trials import Outcome, Trial, attempt
from problems.inputs.modules import Module
from problems.spec.schema import Problem, Regime, SizeName
from tests.problems.conftest import Pools
from tests.problems.test_catalog import _equal, a_world_size, make_call

WORLD_SIZES = (2, 4)
CALLS = 3
CALLED_IN_RANGES = 12
"""A number of a range may be one for which the program is right, or the usual one."""

REGIMES = [
    pytest.param(problem, regime, id=f"{problem.slug}-{regime.name}")
    for problem in registry.problems()
    for regime in problem.regimes
]


def _cases(programs_of) -> list:
    return [
        pytest.param(problem, regime, program, world_size, id=f"{problem.slug}-{regime.name}-{program}-x{world_size}")
        for problem in registry.problems()
        for program, regime in programs_of(problem)
        for world_size in WORLD_SIZES
        if problem.refuses_world_size(world_size) is None and world_size >= regime.least_world_size
    ]


def _honest(problem: Problem) -> list[tuple[str, Regime]]:
    programs = honest_programs(load(problem.slug)) if problem.regimes else ()
    return [(program, regime) for regime in problem.regimes for program in programs]


def _outcomes(ranks: Ranks, slug: str, program: str, regime: str, *, calls: int = CALLS) -> Iterator[list[Outcome]]:
    """The outcomes by rank of several calls, each under a key of its own that a failure can be repeated with."""
    for index in range(calls):
        key = hashlib.sha256(f"{slug}/{regime}/{index}".encode()).digest()
        yield ranks.run(attempt, Trial(slug=slug, program=program, key=key, index=index, regime=regime))


@pytest.mark.parametrize(("problem", "regime", "program", "world_size"), _cases(_honest))
def test_honest_program_passes_in_the_regime(
    pools: Pools, problem: Problem, regime: Regime, program: str, world_size: int
):
    for outcomes in _outcomes(pools.of(world_size), problem.slug, program, regime.name):
        assert [outcome for outcome in outcomes if not outcome.passed] == []


@pytest.mark.parametrize(("problem", "regime", "program", "world_size"), _cases(narrow_programs))
def test_program_that_is_right_but_for_the_regime_fails_in_it_alone(
    pools: Pools, problem: Problem, regime: Regime, program: str, world_size: int
):
    ranks = pools.of(world_size)
    # Sums that are held to the rounding of their addends refuse what is sent in fewer bits in usual calls too.
    is_refused_anyway = hasattr(inspect.getmodule(load(problem.slug).expected), "addends")
    for outcomes in () if is_refused_anyway else _outcomes(ranks, problem.slug, program, ""):
        assert [outcome for outcome in outcomes if not outcome.passed] == [], "it is no narrow program: it fails anyway"
    with contextlib.suppress(RankFailure):  # to raise on every rank is to fail
        calls = CALLED_IN_RANGES if regime.ranges else CALLS
        failed = (
            not all(outcome.passed for outcome in outcomes)
            for outcomes in _outcomes(ranks, problem.slug, program, regime.name, calls=calls)
        )
        assert any(failed) if regime.ranges else all(failed)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize(
    ("problem", "dtype"),
    [
        pytest.param(problem, dtype, id=f"{problem.slug}-{dtype}")
        for problem in registry.problems()
        for dtype in problem.dtypes[1:]
    ],
)
def test_honest_programs_pass_in_the_other_dtypes(pools: Pools, problem: Problem, dtype: str, world_size: int):
    regimes = ["", *(regime.name for regime in problem.regimes_at(SizeName.TINY, world_size, dtype))]
    for program in honest_programs(load(problem.slug)):
        for regime in regimes:
            trial = Trial(slug=problem.slug, program=program, key=bytes(32), dtype=dtype, regime=regime)
            outcomes = pools.of(world_size).run(attempt, trial)
            assert [outcome for outcome in outcomes if not outcome.passed] == [], (program, regime)


@pytest.mark.parametrize(("problem", "regime"), REGIMES)
def test_regime_changes_what_some_rank_is_given(problem: Problem, regime: Regime):
    usual = make_call(problem, SizeName.TINY, world_size=max(a_world_size(problem), regime.least_world_size))
    other = make_call(problem, SizeName.TINY, world_size=usual.world_size, regime=regime)
    make_inputs = load(problem.slug).make_inputs
    assert any(
        not _same(make_inputs(usual.at_rank(rank)), make_inputs(other.at_rank(rank)))
        for rank in range(usual.world_size)
    )


def _same(left: object, right: object) -> bool:
    if isinstance(left, Module) and isinstance(right, Module):
        return _same(dict(left.tensors), dict(right.tensors))
    if left is None or right is None or isinstance(left, tuple) != isinstance(right, tuple):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, torch.Tensor) and left.layout is torch.strided and left.stride() != right.stride():
        return False
    if hasattr(left, "shape") or (isinstance(left, list) and any(hasattr(item, "shape") for item in left)):
        return _equal(left, right)
    return left == right
