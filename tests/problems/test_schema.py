"""Descriptions that cannot be: refused when they are made, with what is wrong."""

import csv
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest

from problems import registry
from problems.inputs.groups import contiguous, strided, world
from problems.spec.categories import LOOKS, Category, Look, SourceFamily, category, source_family
from problems.spec.schema import Cost, SizeName, Tolerance
from problems.spec.taxonomy import Parallelism

PROBLEM = registry.get("allreduce")


def test_problem_without_a_size_is_refused():
    with pytest.raises(ValueError, match=r"problem allreduce lacks the sizes \['large'\]"):
        replace(PROBLEM, sizes={name: size for name, size in PROBLEM.sizes.items() if name is not SizeName.LARGE})


def test_a_second_axis_is_refused():
    with pytest.raises(ValueError, match="problem allreduce has axes bytes, bytes: a sweep goes along one, so declare"):
        replace(PROBLEM, axes=PROBLEM.axes * 2)


def test_problem_without_output_is_refused():
    with pytest.raises(ValueError, match="problem allreduce has no output"):
        replace(PROBLEM, outputs=())


def test_mutable_argument_must_be_an_output():
    with pytest.raises(ValueError, match=r"mutable arguments {'tensor'} and written outputs set"):
        replace(PROBLEM, arguments=(replace(PROBLEM.arguments[0], mutable=True),))


def test_negative_tolerance_is_refused():
    with pytest.raises(ValueError, match="cannot be negative"):
        Tolerance(atol=-1, rtol=0, calibration="")


def test_cost_below_the_least_wire_bytes_is_refused():
    with pytest.raises(ValueError, match="least bytes on the wire"):
        Cost(flops={}, memory_bytes=1, wire_bytes=2, reference_wire_bytes=1)


def test_single_rank_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="problem allreduce needs at least 2 ranks, got 1"):
        PROBLEM.dims(SizeName.TINY, 1)


@pytest.mark.parametrize(
    ("world_size", "sizes", "refusal"),
    [
        (2, ["tiny"], None),
        (2, ["tiny", "base"], "needs at least 4 ranks at size base, got 2"),
        (4, ["base", "large"], None),
        (1, ["base"], "needs at least 2 ranks, got 1"),
    ],
)
def test_size_is_not_judged_on_fewer_ranks_than_it_needs(world_size: int, sizes: list[str], refusal: str | None):
    demanding = replace(PROBLEM.sizes[SizeName.BASE], least_world_size=4)
    problem = replace(PROBLEM, sizes={**PROBLEM.sizes, SizeName.BASE: demanding})
    assert problem.refuses(world_size, sizes) == refusal


def test_groups_cover_the_world_in_blocks_and_in_strides():
    assert world(3).ranks == (0, 1, 2)
    assert contiguous(5, world_size=8, group_size=4).ranks == (4, 5, 6, 7)
    assert strided(5, world_size=8, group_size=2).ranks == (1, 5)


def test_group_size_must_divide_the_world():
    with pytest.raises(ValueError, match="groups of 3 do not divide a world of 8"):
        contiguous(0, world_size=8, group_size=3)


def test_categories_of_the_paper_hold_what_it_counts_where_our_rule_can_tell():
    """The paper gives counts alone. Four of its rows differ from ours, and the page shows both."""
    published = {row["group"]: int(row["value"]) for row in _published() if row["figure"] == "categories"}
    here = Counter(category(problem).label for problem in registry.problems())
    assert here.total() == len(registry.problems())
    differing = {group for group, count in published.items() if group != "Total" and here[group] != count}
    assert differing == {"Tensor Parallel", "Sequence Parallel", "Context Parallel", "Data Parallel"}


def test_a_new_problem_has_a_category_and_a_kind_of_code_base():
    new = replace(registry.get("allreduce"), parallelism=(Parallelism.TABLE,), origin="A code base that nobody knows")
    assert category(new) is Category.TENSOR
    assert source_family(new) is SourceFamily.OTHER


def test_looks_for_public_implementations_are_of_problems_and_say_when_and_where():
    for slug, look in LOOKS.items():
        assert registry.get(slug).slug == slug
        assert look.date <= f"{datetime.now(UTC):%Y-%m-%d}"
    with pytest.raises(ValueError, match="needs a date"):
        Look(date="", where="a search")
    with pytest.raises(ValueError, match="an address"):
        Look(date="2026-11-26", where="a search", found="a kernel")


def _published() -> list[dict[str, str]]:
    with (registry.DATA / "published" / "values.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("slug", "multiples"),
    [
        ("allgather_gemm_AT", {"M": 16, "N": 16, "K": 64, "K_local": 8}),
        ("allgather_gemm", {"M": 16, "N": 32, "K": 64, "K_local": 8}),
        ("gemm_allreduce", {"M": 64, "N": 512, "K": 64}),
        ("gemm_allgather", {"M": 8, "N_local": 32, "K": 64}),
        ("combined_sharded_gemms", {"M_rows": 16, "F": 32, "H": 64, "H_local": 8}),
        ("gemm_reducescatter", {"M": 16, "N": 256, "K_local": 16}),
    ],
)
def test_products_draw_the_multiples_that_their_pages_promise(slug: str, multiples: dict[str, int]):
    # Kernels are written for these tiles. A regime of gemm_allreduce once drew 1,168 rows, and its page said 64s.
    problem = registry.get(slug)
    for world_size in (2, 4, 8):
        for regime in problem.regimes_at(SizeName.TINY, world_size):
            for seed in range(50):
                dims = problem.dims(SizeName.TINY, world_size, regime.drawn(Random(seed)))
                wrong = {name: dims[name] for name, multiple in multiples.items() if dims[name] % multiple}
                assert not wrong, f"{regime.name} on {world_size} ranks"
