"""Every problem of the registry: honest programs pass on all ranks, wrong ones fail, at 2 and at 4 ranks."""

import hashlib

import pytest

from problems import registry
from problems.calibration import honest_programs, wrong_programs
from problems.implementation import load
from problems.ranks import Ranks
from problems.trials import Outcome, Trial, attempt
from tests.problems.conftest import Pools

WORLD_SIZES = (2, 4)
CALLS = 3


def _cases(programs_of) -> list:
    return [
        pytest.param(problem.slug, program, world_size, id=f"{problem.slug}-{program}-x{world_size}")
        for problem in registry.problems()
        for program in programs_of(load(problem.slug))
        for world_size in WORLD_SIZES
        if problem.refuses_world_size(world_size) is None
    ]


def _outcomes(ranks: Ranks, slug: str, program: str) -> list[list[Outcome]]:
    """The outcomes by rank of several calls, each under a key of its own that a failure can be repeated with."""
    keys = [hashlib.sha256(f"{slug}/{call}".encode()).digest() for call in range(CALLS)]
    trials = [Trial(slug=slug, program=program, key=key, index=index) for index, key in enumerate(keys)]
    return [ranks.run(attempt, trial) for trial in trials]


@pytest.mark.parametrize(("slug", "program", "world_size"), _cases(honest_programs))
def test_honest_program_passes_on_every_rank(pools: Pools, slug: str, program: str, world_size: int):
    for outcomes in _outcomes(pools.of(world_size), slug, program):
        assert [outcome for outcome in outcomes if not outcome.passed] == []


@pytest.mark.parametrize(("slug", "program", "world_size"), _cases(wrong_programs))
def test_wrong_program_fails_in_every_call(pools: Pools, slug: str, program: str, world_size: int):
    for outcomes in _outcomes(pools.of(world_size), slug, program):
        assert not all(outcome.passed for outcome in outcomes), outcomes


def test_two_honest_variants_or_more_per_problem():
    assert {problem.slug for problem in registry.problems() if len(load(problem.slug).honest) < 2} == set()
