"""Programs that must pass and programs that must fail."""

import torch.distributed as dist

from problems import moe_layer_variants
from problems.catalog.p051_moe_ep_narrow.reference import _expert_group
from problems.catalog.p051_moe_ep_narrow.spec import PROBLEM


def _group_of(num_experts: int) -> dist.ProcessGroup | None:
    """The block of ranks that own the experts."""
    return _expert_group(num_experts, dist.get_world_size())


HONEST = moe_layer_variants.honest(PROBLEM.parameter_names, _group_of)
MUTANTS = moe_layer_variants.mutants(PROBLEM.parameter_names, _group_of, with_second=False)
