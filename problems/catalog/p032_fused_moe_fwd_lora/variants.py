"""Programs that must pass and programs that must fail."""

from typing import Any

from torch import Tensor

from problems.catalog.p032_fused_moe_fwd_lora.spec import PROBLEM
from problems.families import moe_layer_variants

_networks_moved = moe_layer_variants.networks_moved(PROBLEM.parameter_names, moe_layer_variants.all_ranks)


def adapters_up_to_rank_4(*values: Any) -> Tensor:
    """Leaves out what adapters have beyond rank 4."""
    named = zip(PROBLEM.parameter_names, values, strict=True)
    return _networks_moved(*(_up_to_rank_4(name, value) for name, value in named))


def _up_to_rank_4(name: str, value: Any) -> Any:
    if not name.startswith("lora_"):
        return value
    return value[:4].contiguous() if name.endswith("_A") else value[:, :4].contiguous()


HONEST = moe_layer_variants.honest(PROBLEM.parameter_names, moe_layer_variants.all_ranks)
MUTANTS = moe_layer_variants.mutants(PROBLEM.parameter_names, moe_layer_variants.all_ranks, with_second=True)
NARROW = moe_layer_variants.narrow(
    PROBLEM.parameter_names, moe_layer_variants.all_ranks, per_owner=lambda owners: 8 // owners
) | {"other_adapters": adapters_up_to_rank_4}
