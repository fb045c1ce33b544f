"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

MARGIN = 0.3
"""How far the logits of chosen experts lie above the others: wider than rounding, so that no choice is a tie."""

_LEVELS = (96.0, 0.0, -160.0)
"""Of rows whose exponentials overflow float32, are as usual, or are zero."""

_SPREAD, _STEP = 75.0, 2.0
"""Of the logits of a row on one of these levels, and of those not chosen below the others: more than rounding."""


def make_inputs(call: Call) -> Arguments:
    """`gate_logits` (M, E) with preferences of the rank's own, the numbers that go with them, and perhaps a mask."""
    logits, _ = routed(call)
    counted = counted_tokens(call)
    return {
        "gate_logits": logits if call.setting("layers", None) is None else logits.chunk(_layers(call)),
        "num_experts": call.dims["E"],
        "top_k": top_k(call),
        "attention_mask": None if counted is None else counted.long().view(_sequences(call), -1),
    }


def top_k(call: Call) -> int:
    """How many experts every token chooses."""
    chosen = call.setting("top_k", call.dims["top_k"])
    return int(call.dims["E"] if chosen == "all" else chosen)


def routed(call: Call) -> tuple[Tensor, Tensor]:
    """The rank's logits (M, E) and the experts raised above the others (M, top_k), in no order."""
    # How strong preferences are differs between calls, so that the loss of one call does not foretell another's.
    strength = 2.0 ** float(call.uniform("strength", (), low=-0.5, high=1.5, dtype=torch.float64, shared=True))
    preference = call.normal("preference", (1, "E"), std=strength, dtype=torch.float32)
    logits = call.normal("gate_logits", ("M", "E"), dtype=torch.float32).add_(preference)
    logits = logits[: _layers(call) * _tokens(call)]
    if (counted := counted_rows(call)) is not None:
        # Padding is all alike, and unlike the tokens: whoever counts it gets another loss.
        logits = torch.where(counted.unsqueeze(1), logits, -preference)
    chosen = logits.topk(top_k(call), dim=1, sorted=False).indices
    logits.scatter_add_(1, chosen, torch.full_like(chosen, MARGIN, dtype=torch.float32))
    if call.setting("logits", None) == "apart":
        logits = _apart(call, logits, chosen)
    return logits.to(call.dtype), chosen


def _apart(call: Call, logits: Tensor, chosen: Tensor) -> Tensor:
    """`logits` (M, E) on levels drawn by row, each row with choices so far apart that few probabilities are left."""
    lowest, highest = logits.aminmax(dim=1, keepdim=True)
    below = torch.full_like(logits, _STEP).scatter_(1, chosen, 0.0)
    levels = torch.tensor(_LEVELS, device=call.device)[
        call.integers("regime's levels", (len(logits), 1), low=0, high=len(_LEVELS))
    ]
    return (logits - highest) * (_SPREAD / (highest - lowest)) - below + levels


def counted_rows(call: Call) -> Tensor | None:
    """Which rows of the stacked logits count (M, bool): the mask once per layer; None where all do."""
    counted = counted_tokens(call)
    return None if counted is None else counted.repeat(_layers(call))


def counted_tokens(call: Call) -> Tensor | None:
    """Which of the rank's tokens the mask leaves in (bool): a secret share, one at least; None without a mask.

    On some ranks, but not on all, the mask leaves in every token.
    """
    if (kind := call.setting("mask", None)) is None:
        return None
    draws = call.uniform("regime's mask", (_tokens(call),), dtype=torch.float32)
    share = call.uniform("regime's counted share", (), low=0.2, high=0.8, dtype=torch.float32)
    if call.rank != owner(call) and int(call.integers("regime's padding", (), low=0, high=2)) == 0:
        share = torch.ones_like(share)
    has_one = kind == "one_token" and call.rank == owner(call)
    counted = torch.zeros_like(draws, dtype=torch.bool) if has_one else draws < share
    counted[draws.argmin()] = True
    return counted


def _sequences(call: Call) -> int:
    """How many sequences the mask has: one or two, or as many as leave one or two positions to each."""
    tokens = _tokens(call)
    sequences = (1, 2, tokens // 2, tokens)[int(call.integers("regime's sequences", (), low=0, high=4, shared=True))]
    return sequences if sequences > 0 and tokens % sequences == 0 else 1


def _tokens(call: Call) -> int:
    """How many tokens a layer has; where layers do not divide the rows, the last rows are left out."""
    return int(call.dims["M"] // _layers(call))


def _layers(call: Call) -> int:
    return int(call.setting("layers", 1))
