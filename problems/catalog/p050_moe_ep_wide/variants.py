"""Programs that must pass and programs that must fail."""

from problems import moe_layer_variants
from problems.catalog.p050_moe_ep_wide.spec import PROBLEM


def _world(_num_experts: int) -> None:
    """All ranks own experts."""


HONEST = moe_layer_variants.honest(PROBLEM.parameter_names, _world)
MUTANTS = moe_layer_variants.mutants(PROBLEM.parameter_names, _world, with_second=True)
