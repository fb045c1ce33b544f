"""Arguments of one rank for one call."""

import torch

from problems.families import seed_exchange
from problems.families.one_rank import in_regime_of_ranks
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`grad_output` (T, h) in float32, `seed_inverse_ids` (T,), F, the two lists of W counts, and no group.

    Gradients have a long tail, as real ones do, so that one scale per row in a narrow format shows.
    """
    gradients = call.long_tailed("grad_output", ("T", "h"), dtype=torch.float32)
    if (common := call.setting("common", None)) is not None:
        gradients += common
    if call.setting("zeros", None) == "half":
        gradients *= call.integers("regime's zeros", ("T", "h"), low=0, high=2)
    return {
        "grad_output": in_regime_of_ranks(call, "grad_output", gradients),
        "seed_inverse_ids": seed_exchange.seed_inverse_ids(call),
        "seed_size": call.dims["F"],
        "counts_sent": seed_exchange.counts_sent(call),
        "counts_received": seed_exchange.counts_received(call),
        "group": None,
    }
