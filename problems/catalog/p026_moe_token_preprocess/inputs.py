"""Arguments of one rank for one call."""

import torch

from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`expert_mask` (E, topk, M), one-hot over experts and in timed calls not contiguous; `num_experts`; no group.

    Every rank prefers experts of its own, so that counts are uneven. The slots of a token are drawn independently: it
    may name an expert twice.
    """
    experts = call.dims["E"]
    preference = call.normal("preference", (1, "E"), dtype=torch.float32)
    if (slots := call.setting("slots", None)) is not None:
        block = 1 if slots == "on_one_expert" else call.dims["E_local"]
        is_of_one = torch.arange(experts, device=call.device) // block == owner(call)
        preference = preference.masked_fill(is_of_one if slots == "elsewhere" else ~is_of_one, -torch.inf)
    choices = torch.multinomial(
        preference.softmax(dim=1).expand(call.dims["M"], experts),
        call.dims["topk"],
        replacement=True,
        generator=call.generator("choices"),
    )
    one_hot = torch.nn.functional.one_hot(choices, experts).float()
    expert_mask = one_hot.permute(2, 1, 0)
    if call.setting("contiguous", usual=False):
        expert_mask = expert_mask.contiguous()
    return {"expert_mask": expert_mask, "num_experts": experts, "group": None}
