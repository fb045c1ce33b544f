"""What each rank owes: copies and decisions by exact counts."""

import torch
from torch import Tensor

from problems.catalog.p081_sam3_allgather_iou_suppression.inputs import make_inputs
from problems.values import Call

SUPPRESSED = -10.0


def expected(call: Call) -> tuple[Tensor, ...]:
    """`masks_global` (O, Hm, Wm), `scores_global` (O,) in float32 and `to_suppress` (O,) bool."""
    ranks = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    masks = torch.cat([each["low_res_masks_local"] for each in ranks]).float()
    scores = torch.cat([each["obj_scores_local"] for each in ranks]).float()
    overlap = _overlaps(masks)
    last = ranks[0]["last_occluded"]
    if ranks[0]["reverse"]:
        last = _reversed(last)
    # An entry (i, j): i gives way to j. Recency counts only where the other was occluded at all.
    seen = ranks[0]["last_occluded"] > -1
    gives_way = (last.unsqueeze(1) > last.unsqueeze(0)) & seen.unsqueeze(0)
    strong = (overlap >= ranks[0]["iou_threshold"]) & ~torch.eye(len(last), dtype=torch.bool, device=call.device)
    to_suppress = (strong & gives_way).any(dim=1)
    masks[to_suppress] = SUPPRESSED
    return masks, scores, to_suppress


def _reversed(last: Tensor) -> Tensor:
    """Turns every comparison of two entries around."""
    return -last


def _overlaps(masks: Tensor) -> Tensor:
    """Intersection over union of every pair, (O, O) float32; counts are exact, the quotient is rounded once."""
    inside = (masks > 0).flatten(1).double()
    both = inside @ inside.T
    sizes = inside.sum(dim=1)
    either = (sizes.unsqueeze(0) + sizes.unsqueeze(1) - both).clamp(min=1)
    return both.float() / either.float()
