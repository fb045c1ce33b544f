"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.expert_routing import draw, draw_counts
from problems.inputs.regime_values import LARGEST, SMALLEST, in_regime
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """Expert outputs (T, N), grouped by local expert and then by source, and the routing that brought them here."""
    routing = draw(call)
    return {
        "expert_outputs": expert_outputs(call),
        "routing_weights": routing_weights(call),
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


def expert_outputs(call: Call) -> Tensor:
    """What the rank's experts made of the rows they received (T, N).

    Outputs are long-tailed, so that an 8-bit payload loses more than rounding to bfloat16 does.
    """
    rows = "T" if call.regime is None else _received(call)
    outputs = in_regime(call, "expert_outputs", call.long_tailed("expert_outputs", (rows, "N")))
    return _with_zero_edges(call, outputs) if call.setting("edges", "usual") == "zero" else outputs


def _with_zero_edges(call: Call, outputs: Tensor) -> Tensor:
    """`outputs`, where the first and last row that an expert received from a rank are zero."""
    counts = draw_counts(call).view(call.world_size, call.world_size, -1)[:, call.rank].t().flatten()
    ends = counts[counts > 0].cumsum(dim=0).to(outputs.device)
    outputs[ends - 1] = 0
    outputs[ends[:-1]] = 0
    outputs[:1] = 0
    return outputs


def _received(call: Call) -> int:
    """How many rows the rank's experts received."""
    return int(draw_counts(call).view(call.world_size, call.world_size, -1)[:, call.rank].sum())


def routing_weights(call: Call) -> Tensor:
    """The weights (M, topk) of the experts that the rank's tokens chose."""
    drawn = call.normal("routing_weights", ("M", "topk"), dtype=torch.float32)
    if call.setting("edges", "usual") == "zero":
        drawn[[0, -1]] = 0
    if call.setting("one_expert_counts", usual=False):
        return torch.zeros_like(drawn, dtype=call.dtype).scatter_(1, drawn.argmax(dim=1, keepdim=True), 1)
    is_free = call.setting("free_weights", usual=False)
    # The same on all ranks: as they are, beyond the range of float16 either way, or nearly as in usual calls.
    size = int(call.integers("regime's weights", (), low=0, high=4, shared=True)) if is_free else 3
    if size < 3:
        return drawn.mul_((1.0, LARGEST, SMALLEST)[size]).to(call.dtype)
    # The softmax of a single choice is 1.
    weights = drawn.softmax(dim=1) if drawn.shape[1] > 1 else drawn.sigmoid()
    return (weights * 1.04 if is_free else weights).to(call.dtype)
