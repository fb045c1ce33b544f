"""A problem's cost model as rows for the page: dimensions and work per rank."""

from dataclasses import dataclass

from evaluator.contract import Mode
from evaluator.hardware.profiles import Profile, profiles
from problems.spec.schema import Cost, Dims, Problem, SizeName

ELEMENT_BYTES = 2
"""Bytes per element of a ranked evaluation's dtype, bfloat16."""


@dataclass(frozen=True, kw_only=True)
class SizeRow:
    """One size at one world size: dimensions and the least work of each rank."""

    name: str
    system: str
    world_size: int
    dims: Dims
    cost: Cost

    @property
    def flops(self) -> float:
        """Operations per rank, all kinds of arithmetic together."""
        return sum(self.cost.flops.values())


def size_rows(problem: Problem, *, world_size: int) -> list[SizeRow]:
    """Every size of `problem` at `world_size` ranks; empty where the problem refuses that number of ranks."""
    if problem.refuses_world_size(world_size) is not None:
        return []
    rows = []
    for name in SizeName:
        dims = problem.dims(name, world_size)
        cost = problem.cost(dims, world_size, ELEMENT_BYTES)
        system = problem.sizes[name].system
        rows.append(SizeRow(name=name.value, system=system, world_size=world_size, dims=dims, cost=cost))
    return rows


def judging_profiles(problem: Problem) -> list[Profile]:
    """The profiles that judge `problem` at their ranked sizes, practice boards first."""
    return [
        profile
        for profile in profiles().values()
        if problem.refuses(profile.world_size, profile.sizes[Mode.RANKED]) is None
    ]
