"""Arguments of one rank for one call."""

import torch

from problems.expert_routing import draw
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Expert outputs (T, N), grouped by local expert and then by source, and the routing that brought them here.

    Outputs are long-tailed, so that an 8-bit payload loses more than rounding to bfloat16 does.
    """
    routing = draw(call)
    scores = call.normal("routing_weights", ("M", "topk"), dtype=torch.float32)
    return {
        "expert_outputs": call.long_tailed("expert_outputs", ("T", "N")),
        "routing_weights": scores.softmax(dim=1).to(call.dtype),
        "selected_experts": routing.choices,
        "num_experts": call.dims["E"],
        "input_splits": routing.sent,
        "output_splits": routing.received,
        "num_global_tokens_per_local_expert": routing.per_local_expert.to(call.device),
        "routing_map": routing.map,
        "local_input_permutation_mapping": routing.tokens,
        "org_hidden_states_shape": torch.Size(call.shape(("M", "N"))),
        "group": None,
    }
