"""The expected outputs: copies and decisions by exact counts."""

import torch
from torch import Tensor

from problems.catalog.p081_sam3_allgather_iou_suppression.inputs import discs, draw_masks, draw_scores, make_inputs
from problems.inputs.values import Call

SUPPRESSED = -10.0


def expected(call: Call) -> tuple[Tensor, ...]:
    """`masks_global` (O, Hm, Wm), `scores_global` (O,) in float32 and `to_suppress` (O,) bool."""
    own = make_inputs(call)
    counts, everyone = own["num_obj_per_gpu"], discs(call)
    ranks = [call.at_rank(rank) for rank in range(call.world_size)]
    masks = torch.cat([draw_masks(rank, counts, everyone) for rank in ranks]).float()
    scores = torch.cat([draw_scores(rank, counts) for rank in ranks]).float()
    overlap = _overlaps(masks)
    last = own["last_occluded"]
    seen = last > -1
    if own["reverse"]:
        last = _reversed(last)
    # An entry (i, j): i gives way to j. Recency counts only where the other was occluded at all.
    gives_way = (last.unsqueeze(1) > last.unsqueeze(0)) & seen.unsqueeze(0)
    strong = (overlap >= own["iou_threshold"]) & ~torch.eye(len(last), dtype=torch.bool, device=call.device)
    to_suppress = (strong & gives_way).any(dim=1)
    masks[to_suppress] = SUPPRESSED
    return masks, scores, to_suppress


def _reversed(last: Tensor) -> Tensor:
    """Turns every comparison of two entries around."""
    return -last


def _overlaps(masks: Tensor) -> Tensor:
    """Intersection over union of every pair, (O, O) float32; the quotient is rounded once.

    Counts of pixels are exact in float32, which has all integers up to 2^24, in whatever order they are added up. They
    are counted in every row of the masks first: one product of few objects with very many pixels has few sums, each of
    them long, which keeps little of a GPU busy.
    """
    inside = (masks > 0).float()
    rows = inside.transpose(0, 1)
    both = (rows @ rows.mT).sum(dim=0)
    sizes = inside.flatten(1).sum(dim=1)
    either = (sizes.unsqueeze(0) + sizes.unsqueeze(1) - both).clamp(min=1)
    return both / either
