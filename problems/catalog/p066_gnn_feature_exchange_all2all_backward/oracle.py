"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p066_gnn_feature_exchange_all2all_backward.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`grad_features` (F, h): for every seed, the sum of the gradients of its copies on all ranks."""
    own = make_inputs(call)
    total = torch.zeros(call.shape(("F", "h")), dtype=torch.float64, device=call.device)
    for i, ids in enumerate(own["seed_inverse_ids"].split(own["counts_received"])):
        peer = make_inputs(call.at_rank((call.rank + i) % call.world_size))
        returned = peer["grad_output"].split(peer["counts_sent"])[-i % call.world_size]
        total.index_add_(0, ids, returned.double())
    return (total,)
