"""Programs that must pass and programs that must fail."""

import torch.distributed as dist

from problems.catalog.p051_moe_ep_narrow.reference import _expert_group
from problems.catalog.p051_moe_ep_narrow.spec import PROBLEM
from problems.families import moe_layer_variants


def _group_of(num_experts: int) -> dist.ProcessGroup | None:
    """The block of ranks that own the experts."""
    return _expert_group(num_experts, dist.get_world_size())


def _pairs(_num_experts: int) -> dist.ProcessGroup | None:
    """The pair of neighbouring ranks, which on up to 4 ranks own the experts of a timed call."""
    return _expert_group(2, dist.get_world_size())


HONEST = moe_layer_variants.honest(PROBLEM.parameter_names, _group_of)
MUTANTS = moe_layer_variants.mutants(PROBLEM.parameter_names, _group_of, with_second=False)
NARROW = moe_layer_variants.narrow(PROBLEM.parameter_names, _group_of, per_owner=lambda _owners: 1)
NARROW["more_experts"] = moe_layer_variants.narrow(PROBLEM.parameter_names, _pairs, per_owner=lambda _owners: 1)[
    "more_experts"
]
NARROW["one_expert"] = NARROW["more_experts"]
