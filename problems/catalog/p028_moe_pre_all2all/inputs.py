"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.expert_routing import Routing, draw
from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Tokens (M, N), their routing as a mask (E, topk, M), and the counts that follow from all ranks' routings."""
    routing = draw(call)
    return {
        "hidden_states": hidden_states(call),
        "expert_mask": _mask(call, routing),
        "num_experts": call.dims["E"],
        "input_splits": routing.sent,
        "output_splits": routing.received,
        "num_global_tokens_per_local_expert": routing.per_local_expert.to(call.device),
        "group": None,
    }


def hidden_states(call: Call) -> Tensor:
    """The rank's tokens (M, N)."""
    tokens = copied(call, "hidden_states", call.normal("hidden_states", ("M", "N")))
    if call.setting("beginnings", "usual") == "zero":
        tokens[::2, :8] = 0
    return tokens


def _mask(call: Call, routing: Routing) -> Tensor:
    """One-hot over experts, the slots of every token in an order of their own."""
    order = call.uniform("slots", ("M", "topk"), dtype=torch.float32).argsort(dim=1)
    choices = routing.choices.gather(1, order)
    experts = torch.arange(call.dims["E"], device=call.device)
    return (choices.t().unsqueeze(0) == experts.view(-1, 1, 1)).float()
