"""A wire of 10 bits an element is refused wherever the result is a sum or a copy of what travels; honest sums pass."""

import pytest

from problems import registry
from problems.harness.mutants import ORDERS, adds
from problems.harness.trials import Trial, attempt
from problems.spec.schema import Problem, SizeName
from tests.problems import wires
from tests.problems.conftest import Pools
from tests.problems.test_catalog import CARDS

WORLD_SIZES = (2, 4)
CALLS = 3


def _cases(wanted) -> list:
    return [
        pytest.param(problem, world_size, id=f"{problem.slug}-x{world_size}")
        for problem in registry.problems()
        for world_size in WORLD_SIZES
        if wanted(problem) and problem.refuses_world_size(world_size) is None
    ]


@pytest.mark.parametrize(
    ("problem", "world_size"), _cases(lambda problem: wires.is_concerned(problem) and not problem.fewer_bits)
)
def test_wire_of_ten_bits_is_refused_and_honest_programs_pass(pools: Pools, problem: Problem, world_size: int):
    row = wires.measured(pools.of(world_size), problem, size=SizeName.TINY, calls=CALLS)
    assert row.refused > CALLS / 2, row
    assert row.honest_refused == 0, row


@pytest.mark.parametrize(("problem", "world_size"), _cases(adds))
def test_sums_over_ranks_pass_in_any_order_in_every_regime(pools: Pools, problem: Problem, world_size: int):
    ranks = pools.of(world_size)
    for regime in ["", *(regime.name for regime in problem.regimes_at(SizeName.TINY, world_size))]:
        for program in ORDERS:
            trial = Trial(slug=problem.slug, program=f"order:{program}", key=bytes(32), regime=regime)
            outcomes = ranks.run(attempt, trial)
            assert [outcome for outcome in outcomes if not outcome.passed] == [], (program, regime)


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(problem, id=problem.slug)
        for problem in registry.problems()
        if wires.is_concerned(problem) and problem.refuses_world_size(8) is None
    ],
)
def test_honest_programs_pass_on_eight_ranks(pools: Pools, problem: Problem):
    for program in wires.programs(problem):
        outcomes = pools.of(8).run(attempt, Trial(slug=problem.slug, program=program, key=bytes(32)))
        assert [outcome for outcome in outcomes if not outcome.passed] == [], program


def test_every_published_problem_with_a_tolerance_has_its_rows():
    problems = [problem for problem in registry.problems() if wires.is_concerned(problem) and problem.slug in CARDS]
    assert [problem.slug for problem in problems if problem.slug not in wires.recorded()] == []
