"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p081_sam3_allgather_iou_suppression.reference import solution

Triple = tuple[Tensor, Tensor, Tensor]


def broadcasts(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """One broadcast per rank in float32, decisions pair by pair."""
    threshold, reverse, _ = rest
    every_mask = _broadcast(masks.float(), counts)
    every_score = _broadcast(scores.float(), counts)
    inside = (every_mask > 0).flatten(1)
    suppressed = torch.zeros(len(last), dtype=torch.bool)
    sign = -1 if reverse else 1
    for i in range(len(last)):
        for j in range(len(last)):
            union = (inside[i] | inside[j]).sum().clamp(min=1)
            overlap = (inside[i] & inside[j]).sum() / union
            is_older = sign * last[i] > sign * last[j] and last[j] > -1
            suppressed[i] |= i != j and bool(overlap >= threshold) and bool(is_older)
    every_mask[suppressed] = -10.0
    return every_mask, every_score, suppressed


def bits_first(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Decides by gathered bits, and writes the masks once, already filled."""
    threshold, reverse, _ = rest
    inside = _broadcast((masks > 0).to(torch.uint8), counts).flatten(1).double()
    both = inside @ inside.T
    union = inside.sum(dim=1, keepdim=True) + inside.sum(dim=1) - both
    order = -last if reverse else last
    gives_way = (order.unsqueeze(1) > order) & (last > -1)
    strong = both.float() / union.clamp(min=1).float() >= threshold
    suppressed = (strong.fill_diagonal_(False) & gives_way).any(dim=1)
    every_mask = torch.where(suppressed.view(-1, 1, 1), -10.0, _broadcast(masks, counts).float())
    return every_mask, _broadcast(scores, counts).float(), suppressed


def _broadcast(local: Tensor, counts: list[int]) -> Tensor:
    parts = [local.new_empty((count, *local.shape[1:])) for count in counts]
    parts[dist.get_rank()] = local.contiguous()
    for rank, part in enumerate(parts):
        dist.broadcast(part, src=rank)
    return torch.cat(parts)


def nothing_suppressed(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Gathers only."""
    del last, rest
    total = sum(counts)
    return _broadcast(masks.float(), counts), _broadcast(scores.float(), counts), torch.zeros(total, dtype=torch.bool)


def direction_ignored(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """The newer object suppressed and the older kept, the other way round."""
    threshold, reverse, group = rest
    return solution(masks, scores, counts, last, threshold, not reverse, group)


def never_occluded_counts(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Objects that were never occluded take part as if they had been; reversed, where they do, the rest is confused."""
    if rest[1]:
        return direction_ignored(masks, scores, counts, last, *rest)
    return solution(masks, scores, counts, last + 1, *rest)


def threshold_halved(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Weaker overlaps suppress as well."""
    threshold, reverse, group = rest
    return solution(masks, scores, counts, last, threshold / 2, reverse, group)


def masks_kept(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Decides, but leaves the suppressed masks as they were."""
    _, every_score, suppressed = solution(masks, scores, counts, last, *rest)
    return _broadcast(masks.float(), counts), every_score, suppressed


def thresholds_below_one(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Lets nothing give way where the threshold is 1, as a comparison by "greater" does."""
    threshold, reverse, group = rest
    return solution(masks, scores, counts, last, threshold if threshold < 1 else 2.0, reverse, group)


def by_a_product(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Compares the intersection with the union times the threshold, which may be rounded up."""
    return _where(lambda both, union, least: both >= least * union, masks, scores, counts, last, *rest)


def with_a_margin(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Takes an IoU that misses the threshold by a rounding for one that reaches it."""
    return _where(lambda both, union, least: both / union >= least - 1e-6, masks, scores, counts, last, *rest)


def _where(is_strong: Callable[..., Tensor], *arguments: Any) -> Triple:
    """The objects that give way where `is_strong(intersections, unions, threshold)`, all in float32."""
    masks, scores, counts, last, threshold, reverse, _ = arguments
    every_mask, every_score = _broadcast(masks.float(), counts), _broadcast(scores.float(), counts)
    inside = (every_mask > 0).flatten(1).float()
    both, sizes = inside @ inside.T, inside.sum(dim=1)
    union = (sizes[:, None] + sizes - both).clamp(min=1)
    is_later = last[:, None] < last if reverse else last[:, None] > last
    strong = is_strong(both, union, torch.tensor(threshold, dtype=torch.float32)).fill_diagonal_(False)
    suppressed = (strong & is_later & (last > -1)).any(dim=1)
    return every_mask.masked_fill_(suppressed.view(-1, 1, 1), -10.0), every_score, suppressed


def zeros_count(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Takes pixels whose logit is 0 for the object's."""
    _, every_score, suppressed = solution(masks.masked_fill(masks == 0, 1.0), scores, counts, last, *rest)
    every_mask = _broadcast(masks.float(), counts).masked_fill_(suppressed.view(-1, 1, 1), -10.0)
    return every_mask, every_score, suppressed


def smoothed_overlap(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Adds a millionth to both parts of the overlap, which makes it 1 for two objects without a pixel."""
    threshold, reverse, _ = rest
    every_mask, every_score = _broadcast(masks.float(), counts), _broadcast(scores.float(), counts)
    inside = (every_mask > 0).flatten(1).double()
    both, sizes = inside @ inside.T, inside.sum(dim=1)
    overlap = ((both + 1e-6) / (sizes[:, None] + sizes - both + 1e-6)).float()
    is_later = last[:, None] < last if reverse else last[:, None] > last
    overlap.fill_diagonal_(0)
    suppressed = ((overlap >= threshold) & is_later & (last > -1)).any(dim=1)
    return every_mask.masked_fill_(suppressed.view(-1, 1, 1), -10.0), every_score, suppressed


def frames_in_float32(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Keeps the frames of occlusions in float32, which has no odd numbers beyond 2^24."""
    return solution(masks, scores, counts, last.float().long(), *rest)


def room_for_half_more(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Has room for half more than the mean number of objects of a rank, and two; others come out empty."""
    room = sum(counts) * 3 // (2 * len(counts)) + 2
    kept = masks.clone()
    kept[room:] = 0
    return solution(kept, scores, counts, last, *rest)


def frames_in_int32(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Keeps the frames of occlusions in 32 bits."""
    return solution(masks, scores, counts, last.int(), *rest)


def last_pixel_forgotten(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Writes pixels in pairs."""
    every_mask, every_score, suppressed = solution(masks, scores, counts, last, *rest)
    pixels = every_mask.flatten(1)
    pixels[:, pixels.shape[1] // 2 * 2 :] = 0
    return every_mask, every_score, suppressed


def filled_up_with_the_first(masks: Tensor, scores: Tensor, counts: list[int], last: Tensor, *rest: Any) -> Triple:
    """Fills shares up with a rank's first object, so that ranks without one would have nothing to send."""
    every_mask, every_score, suppressed = solution(masks, scores, counts, last, *rest)
    return every_mask * min(1, *counts), every_score, suppressed


HONEST = {"broadcasts": broadcasts, "bits_first": bits_first}
MUTANTS = {
    "nothing_suppressed": nothing_suppressed,
    "direction_ignored": direction_ignored,
    "never_occluded_counts": never_occluded_counts,
    "threshold_halved": threshold_halved,
    "masks_kept": masks_kept,
}
NARROW = {
    "exact_copies": thresholds_below_one,
    "reached_threshold": by_a_product,
    "missed_threshold": with_a_margin,
    "zero_logits": zeros_count,
    "empty_masks": smoothed_overlap,
    "late_frames": frames_in_float32,
    "later_frames": frames_in_int32,
    "odd_masks": last_pixel_forgotten,
    "idle_rank": filled_up_with_the_first,
    "few_objects": filled_up_with_the_first,
    "one_rank_has_most": room_for_half_more,
}
