"""Sums over ranks in usual calls: any order of adding is within their bound, and a narrow wire is not."""

import hashlib

import pytest

from problems import registry
from problems.harness.trials import Trial, attempt
from tests.problems.conftest import Pools
from tests.problems.wires import programs

SUMS = ("allreduce", "reduce", "reducescatter", "gemm_allreduce", "gemm_reducescatter", "moe_epgroupgemm_lora_backward")
CALLS = 3


def _outcomes(pools: Pools, world_size: int, slug: str, program: str) -> list[bool]:
    """Whether each of several usual calls passes on all ranks."""
    keys = [hashlib.sha256(f"{slug}/{call}".encode()).digest() for call in range(CALLS)]
    calls = [pools.of(world_size).run(attempt, Trial(slug=slug, program=program, key=key)) for key in keys]
    return [all(outcome.passed for outcome in outcomes) for outcomes in calls]


@pytest.mark.parametrize("world_size", [2, 4, 8])
@pytest.mark.parametrize("slug", SUMS)
def test_ten_bits_are_refused_in_every_usual_call_and_honest_sums_in_none(pools: Pools, slug: str, world_size: int):
    assert not any(_outcomes(pools, world_size, slug, "wire:ten_bit_wire"))
    for program in programs(registry.get(slug)):
        assert all(_outcomes(pools, world_size, slug, program)), program


@pytest.mark.parametrize("slug", SUMS)
def test_eleven_bits_are_refused_on_two_ranks(pools: Pools, slug: str):
    assert not any(_outcomes(pools, 2, slug, "wire:eleven_bit_wire"))


def test_the_noise_of_one_ranks_product_near_zero_counts_for_no_missing_bit(pools: Pools):
    key = hashlib.sha256(b"gemm_allreduce/(42, 74)").digest()
    trial = Trial(slug="gemm_allreduce", program="honest:float32", key=key, regime="one_rank_has_values")
    assert all(outcome.passed for outcome in pools.of(2).run(attempt, trial))
