"""Bus bandwidth by the convention of nccl-tests (its doc/PERFORMANCE.md)."""

import pytest

from evaluator.judging.bus_bandwidth import bus_bytes, factor
from problems import registry
from problems.spec.taxonomy import Communication


@pytest.mark.parametrize(
    ("slug", "on_two", "on_eight"),
    [
        ("allreduce", 1.0, 1.75),
        ("allgather", 0.5, 0.875),
        ("reducescatter", 0.5, 0.875),
        ("alltoall", 0.5, 0.875),
        ("gather", 0.5, 0.875),
        ("scatter", 0.5, 0.875),
        ("broadcast", 1.0, 1.0),
        ("reduce", 1.0, 1.0),
    ],
)
def test_a_message_counts_as_nccl_tests_count_it(slug: str, on_two: float, on_eight: float) -> None:
    problem = registry.get(slug)
    assert [bus_bytes(problem, 2**20, ranks) for ranks in (2, 8)] == [2**20 * on_two, 2**20 * on_eight]


def test_a_problem_that_also_computes_has_no_bus_bandwidth() -> None:
    assert bus_bytes(registry.get("allgather_gemm"), 2**20, 2) is None


def test_one_rank_has_no_bus() -> None:
    with pytest.raises(ValueError, match="at least 2 ranks, got 1"):
        factor(Communication.ALL_REDUCE, 1)
