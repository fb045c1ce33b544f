"""Every cost model against counters: products by torch's counter, bytes by what the reference's collectives carry."""

import pytest

from problems import registry
from problems.harness.counters import multiples
from problems.spec.schema import Problem, Reading
from tests.problems.conftest import Pools

WORLD_SIZES = (2, 4)
CASES = [
    pytest.param(problem, world_size, id=f"{problem.slug}-x{world_size}")
    for problem in registry.problems()
    for world_size in WORLD_SIZES
    if problem.refuses_world_size(world_size) is None
]


@pytest.mark.parametrize(("problem", "world_size"), CASES)
def test_reference_computes_and_sends_what_the_model_says(pools: Pools, problem: Problem, world_size: int):
    found = multiples(pools.of(world_size), problem)
    assert found.flops is None or problem.counted_flops.admits(found.flops), _remedy("flops", found.flops)
    assert problem.counted_wire.admits(found.wire), _remedy("wire", found.wire)


def _remedy(what: str, multiple: float) -> str:
    return (
        f"the reference's {what} are {multiple:.4g} times what `cost` says: mend `cost`, or give `counted_{what}` a "
        "Reading with bounds and the reason"
    )


@pytest.mark.parametrize(
    "values", [{"least": 2.0, "most": 1.0, "reason": "upside down"}, {"most": 2.0}, {"reason": "?"}]
)
def test_reading_without_order_or_reason_is_refused(values: dict):
    with pytest.raises(ValueError, match="needs an order and a reason"):
        Reading(**values)
