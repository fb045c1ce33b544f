"""Axes of sweeps: every point is a legal call that a rank has the memory for, and no axis decides a judgement."""

from dataclasses import replace

import pytest

from problems import registry
from problems.harness.implementation import load
from problems.spec.judged_data import judged_data
from problems.spec.memory import held_bytes
from problems.spec.schema import Problem, SizeName, UnknownSize
from problems.spec.taxonomy import Block
from tests.problems.conftest import Pools
from tests.problems.test_catalog import make_call
from tools.tables import axes

WITH_AXES = [problem for problem in registry.problems() if problem.axes]
MOST_DRAWN_BYTES = 3e8


def test_the_problems_of_the_published_sweeps_collectives_and_products_have_an_axis():
    assert [problem.number for problem in WITH_AXES] == [*range(1, 9), *range(11, 17), 72, 81, 82]


@pytest.mark.parametrize("problem", WITH_AXES, ids=lambda problem: problem.slug)
def test_every_point_is_legal_and_fits_a_rank(problem: Problem):
    points = [point for axis in problem.axes for point in axis.points(SizeName)]
    assert {point.size for point in points} == {SizeName.TINY, SizeName.BASE}
    assert {point.name: found for point in points if (found := list(axes.against(problem, point)))} == {}
    ranks = axes.accepted(problem)[-1]
    for point in points:
        if held_bytes(problem, problem.dims(point.name, ranks)) <= MOST_DRAWN_BYTES:
            _check_invariants(problem, point.name, ranks)


def _check_invariants(problem: Problem, point: str, world_size: int) -> None:
    """What the problem promises of its arguments holds for the drawn ones of a rank."""
    call = make_call(problem, point, world_size=world_size)
    arguments, dims = load(problem.slug).make_inputs(call), call.dims
    if problem.block is Block.PRIMITIVE and "src" not in arguments:
        assert arguments["tensor"].is_contiguous()
    if problem.slug == "hyena_forward_cp":
        assert arguments["h"].shape[1] <= world_size * dims["Ls"]
        assert arguments["num_groups"] % world_size == 0
    if problem.slug == "sam3_allgather_iou_suppression":
        assert min(arguments["num_obj_per_gpu"]) >= 1
        assert sum(arguments["num_obj_per_gpu"]) == dims["O"]
        assert max(arguments["num_obj_per_gpu"]) <= dims["n_max"]


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", WITH_AXES, ids=lambda problem: problem.slug)
def test_the_reference_is_correct_at_every_point_of_cpu_profiles(pools: Pools, problem: Problem, ranks: int):
    found = {point.name: axes.run(pools.of(ranks), problem, point) for point in problem.points((SizeName.TINY,))}
    assert found == dict.fromkeys(found, "")


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("problem", WITH_AXES[:8], ids=lambda problem: problem.slug)
def test_a_message_has_the_bytes_that_its_point_says(problem: Problem, ranks: int):
    parts = 1 if problem.slug in ("allreduce", "broadcast", "reduce") else ranks
    for point in problem.points(SizeName):
        dims = problem.dims(point.name, ranks)
        assert 2 * dims["M"] * dims["N"] * parts == point.value
        assert dims.get("WM", ranks * dims["M"]) == ranks * dims["M"]


def test_an_axis_is_not_counted_into_a_revision():
    for problem in WITH_AXES:
        assert judged_data(problem) == judged_data(replace(problem, axes=()))


def test_an_unknown_point_is_refused_with_those_that_there_are():
    with pytest.raises(UnknownSize, match=r"no point called 'base:M=3'; it has: tiny:M=16, .*base:M=16384"):
        registry.get("gemm_allreduce").dims("base:M=3", 2)
    with pytest.raises(UnknownSize, match="it has: no axis for a sweep"):
        registry.get("ddp").dims("base:M=3", 2)
