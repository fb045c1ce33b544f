"""Honest programs stay within the bounds over many calls: what is met once in some hundred refuses authors."""

import hashlib
import time

import pytest

from problems import registry
from problems.ranks import Ranks
from problems.schema import Problem, SizeName
from tests.problems.conftest import Pools
from tests.problems.honest_margins import Margin, margins

MOST = 0.9
"""Part of a bound that an honest program may use; errors grow with the number of elements and of calls."""
CALLS = {SizeName.TINY: 100, SizeName.BASE: 20}
BUDGET_S = 10.0
"""After this no further call begins: a problem gets as many calls as fit."""


@pytest.mark.slow
@pytest.mark.parametrize("size", CALLS)
@pytest.mark.parametrize("problem", registry.problems(), ids=lambda problem: problem.slug)
def test_honest_programs_stay_away_from_the_bounds(pools: Pools, problem: Problem, size: SizeName):
    world_size = 2 if problem.refuses_world_size(2) is None else 4
    assert _near_a_bound(pools.of(world_size), problem.slug, size) == []


def _near_a_bound(ranks: Ranks, slug: str, size: SizeName) -> list[tuple[int, int, Margin]]:
    """Call, rank and margin of whatever used more than MOST of a bound."""
    key = hashlib.sha256(f"{slug}/{size}/many calls".encode()).digest()
    near, start = [], time.monotonic()
    for call in range(CALLS[size]):
        if time.monotonic() - start > BUDGET_S:
            break
        for rank, found in enumerate(ranks.run(margins, slug, size, key, call)):
            near += [(call, rank, margin) for margin in found if max(margin.element, margin.rms) > MOST]
    return near
