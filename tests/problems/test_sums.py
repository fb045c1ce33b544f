"""Sums over ranks in usual calls: any order of adding is within their bound, and a narrow wire is not."""

import hashlib

import pytest
import torch

from problems import registry
from problems.harness.trials import Trial, attempt
from problems.outputs import sums
from problems.outputs.comparison import compare_output
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


@pytest.mark.parametrize("power", [0, -66, -88])
def test_sums_that_are_rounded_once_per_rank_pass_however_small_values_are(power: int):
    """The squares of values of 2^-88 are below the least normal number of bfloat16."""
    values = torch.randn(4, 64, 64, generator=torch.Generator().manual_seed(0))
    addends = (values * 2.0**power).bfloat16()
    returned, exact = addends[0], addends.double().sum(0)
    for addend in addends[1:]:
        returned = returned + addend
    output = registry.get("allreduce").outputs[0]
    found = compare_output(output, returned, exact)
    checked = sums.within_rounding(found, returned, exact, addends=iter(addends), world_size=4, roundings=0)
    assert checked.passed, checked.remark
