"""The baseline: padded all-gathers of masks and scores, then the overlaps by one product of matrices."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    low_res_masks_local: Tensor,
    obj_scores_local: Tensor,
    num_obj_per_gpu: "list[int]",
    last_occluded: Tensor,
    iou_threshold: float = 0.7,
    reverse: bool = False,
    group: "dist.ProcessGroup | None" = None,
) -> "tuple[Tensor, Tensor, Tensor]":
    """All ranks' masks (O, Hm, Wm) and scores (O,) in float32, and which objects (O,) are suppressed."""
    if low_res_masks_local.shape[0] != num_obj_per_gpu[dist.get_rank(group)]:
        raise ValueError(f"{low_res_masks_local.shape[0]} masks here, but num_obj_per_gpu is {num_obj_per_gpu}")
    masks = _gather(low_res_masks_local, num_obj_per_gpu, group).float()
    scores = _gather(obj_scores_local, num_obj_per_gpu, group).float()
    to_suppress = _suppressed(masks, last_occluded, iou_threshold, reverse)
    masks.masked_fill_(to_suppress.view(-1, 1, 1), -10.0)
    return masks, scores, to_suppress


def _gather(local: Tensor, counts: "list[int]", group: "dist.ProcessGroup | None") -> Tensor:
    """The rows of all ranks, in rank order; shares are padded to the largest for one collective."""
    share = local.new_zeros((max(counts), *local.shape[1:]))
    share[: local.shape[0]] = local
    gathered = local.new_empty((len(counts), *share.shape))
    dist.all_gather_into_tensor(gathered.view(-1), share.view(-1), group=group)
    return torch.cat([rows[:count] for rows, count in zip(gathered, counts, strict=True)])


def _suppressed(masks: Tensor, last: Tensor, iou_threshold: float, reverse: bool) -> Tensor:
    """Which objects give way to one that they overlap with."""
    inside = (masks > 0).flatten(1).float()
    both = inside @ inside.T
    sizes = inside.sum(dim=1)
    overlap = both / (sizes.unsqueeze(0) + sizes.unsqueeze(1) - both).clamp(min=1)
    mine, other = last.unsqueeze(1), last.unsqueeze(0)
    gives_way = (mine < other if reverse else mine > other) & (other > -1)
    return ((overlap >= iou_threshold).fill_diagonal_(False) & gives_way).any(dim=1)
