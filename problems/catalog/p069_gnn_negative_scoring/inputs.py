"""Arguments of one rank for one call."""

import torch

from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

GAP = 0.2
"""Least distance of a negative's score from its positive's: three steps or more of a bfloat16 sigmoid below 2.5."""

_LARGEST = 2.5


def make_inputs(call: Call) -> Arguments:
    """`local_pos_scores` (p + r mod 3,), `local_neg_scores` (p + r mod 3, nn), and no group.

    How good a row's negatives are differs from row to row, so that many positives rank near the top, as in a trained
    model, and others anywhere. No negative ties with its positive.
    """
    rows = _rows(call)
    low, high = call.setting("level", (-4, 1))
    positive = call.normal("positive", (rows,), mean=0.5, dtype=torch.float32).clamp_(-5, _LARGEST).to(call.dtype)
    level = call.uniform("level", (rows, 1), low=low, high=high, dtype=torch.float32)
    negative = call.normal("negative", (rows, "nn"), dtype=torch.float32).add_(level)
    if (farther := call.setting("farther", None)) is not None:
        negative *= farther
    if call.setting("negatives", None) == "all_just_below":
        negative = positive[:, None].float().expand_as(negative) - 1e-3
    apart = torch.where(negative < positive[:, None].float(), -GAP, GAP)
    return {
        "local_pos_scores": positive,
        "local_neg_scores": negative.add_(apart).to(call.dtype),
        "group": None,
    }


def _rows(call: Call) -> int:
    """How many edges the rank has: p + r mod 3, or none on one rank and its own beside that on the next.

    In one regime one rank has those of all, or all but one of each other rank.
    """
    usual = call.dims["p"] + call.rank % 3
    if (kind := call.setting("rows", None)) is None:
        return usual
    if kind != "one_is_empty":
        least = 1 if kind == "one_has_most" else 0
        return call.dims["P"] - least * (call.world_size - 1) if call.rank == owner(call) else least
    empty = owner(call)
    if call.rank == empty:
        return 0
    return usual + (call.dims["p"] + empty % 3 if call.rank == (empty + 1) % call.world_size else 0)
