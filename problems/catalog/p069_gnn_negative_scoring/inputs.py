"""Arguments of one rank for one call."""

import torch

from problems.values import Arguments, Call

GAP = 0.2
"""Least distance of a negative's score from its positive's: three steps or more of a bfloat16 sigmoid below 2.5."""

_LARGEST = 2.5


def make_inputs(call: Call) -> Arguments:
    """`local_pos_scores` (p + r mod 3,), `local_neg_scores` (p + r mod 3, nn), and no group.

    How good a row's negatives are differs from row to row, so that many positives rank near the top, as in a trained
    model, and others anywhere. No negative ties with its positive.
    """
    rows = call.dims["p"] + call.rank % 3
    positive = call.normal("positive", (rows,), mean=0.5, dtype=torch.float32).clamp_(-5, _LARGEST).to(call.dtype)
    level = call.uniform("level", (rows, 1), low=-4, high=1, dtype=torch.float32)
    negative = call.normal("negative", (rows, "nn"), dtype=torch.float32).add_(level)
    apart = torch.where(negative < positive[:, None].float(), -GAP, GAP)
    return {
        "local_pos_scores": positive,
        "local_neg_scores": negative.add_(apart).to(call.dtype),
        "group": None,
    }
