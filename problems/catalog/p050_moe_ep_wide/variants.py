"""Programs that must pass and programs that must fail."""

from problems.catalog.p050_moe_ep_wide.spec import PROBLEM
from problems.families import moe_layer_variants

HONEST = moe_layer_variants.honest(PROBLEM.parameter_names, moe_layer_variants.all_ranks)
MUTANTS = moe_layer_variants.mutants(PROBLEM.parameter_names, moe_layer_variants.all_ranks, with_second=True)
NARROW = moe_layer_variants.narrow(PROBLEM.parameter_names, moe_layer_variants.all_ranks, per_owner=lambda _owners: 2)
