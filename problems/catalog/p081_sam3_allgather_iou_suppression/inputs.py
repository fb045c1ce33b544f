"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.copied_values import copied
from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

THRESHOLD = 0.7
COPIES = 0.85
SUBNORMAL = 1e-39
"""A number that bfloat16 and float32 hold with few bits."""
REACHED = (
    (0.54, 54, 100),
    (0.54, 16_200, 30_000),
    (0.60, 60, 100),
    (0.60, 16_383, 27_305),
    (0.66, 99, 150),
    (0.66, 16_368, 24_800),
    (0.72, 108, 150),
    (0.72, 16_380, 22_750),
)
"""Thresholds, and pixels of an intersection and a union whose quotient reaches them exactly. In float32 the product of
threshold and union is rounded up beyond the intersection."""


def make_inputs(call: Call) -> Arguments:
    """Masks (n, Hm, Wm) and scores (n,) of the rank's n objects, and what all ranks know of all O objects."""
    counts = object_counts(call)
    return {
        "low_res_masks_local": draw_masks(call, counts, discs(call)),
        "obj_scores_local": draw_scores(call, counts),
        "num_obj_per_gpu": counts,
        "last_occluded": _last_occluded(call),
        "iou_threshold": _threshold(call),
        "reverse": bool(call.integers("reverse", (), low=0, high=2, shared=True).item()),
        "group": None,
    }


def _threshold(call: Call) -> float:
    """0.7 in timed calls; or the IoU of a pair, but a little more in float64, or the next float32 number."""
    if not _is_reached(call):
        return float(call.setting("threshold", THRESHOLD))
    threshold, style = _reached(call)[0], call.setting("threshold", None)
    if style == "missed":
        return float(torch.tensor(threshold).nextafter(torch.tensor(1.0)))
    return threshold * (1 + 2.0**-50)


def object_counts(call: Call) -> list[int]:
    """Objects per rank: the size's counts, dealt to the ranks in a secret order; they add up to O.

    Counts are as even a mix between n_min and n_max as adds up to O.
    """
    dims, world_size = call.dims, call.world_size
    if call.setting("counts", None) == "one_has_all":
        return [dims["O"] if rank == owner(call) else 0 for rank in range(world_size)]
    if call.setting("counts", None) == "one_has_most":
        return [dims["O"] - world_size + 1 if rank == owner(call) else 1 for rank in range(world_size)]
    counts = torch.linspace(dims["n_min"], dims["n_max"], world_size).round().long()
    # Rounding may miss the total by a few objects: they go to (or come from) the ranks in the middle.
    for place in range(abs(missing := dims["O"] - int(counts.sum()))):
        counts[(world_size // 2 + place) % world_size] += 1 if missing > 0 else -1
    dealt: list[int] = counts[call.permutation("counts", world_size, shared=True).cpu()].tolist()
    if call.setting("counts", None) == "one_is_idle":
        idle = owner(call)
        dealt[idle - 1] += dealt[idle]
        dealt[idle] = 0
    return dealt


TELLING_SHIFTS = (0.05, 0.5, 0.05)
"""Shifts in radii: overlaps of about 0.94, 0.52 and 0.94."""


def _telling_pairs(call: Call) -> list[tuple[int, int]]:
    """Up to three disjoint pairs of objects on which every rule of the problem shows, wherever there is room.

    The first overlaps strongly and one gives way; the second too weakly; in the third one was never occluded.
    """
    order = call.permutation("pairs", call.dims["O"], shared=True).tolist()
    return [(order[place], order[place + 1]) for place in range(0, min(6, len(order) - 1), 2)]


def _last_occluded(call: Call) -> Tensor:
    """Integers from -1 to 6 (O,), a third of them -1; the telling pairs have unequal ones."""
    last = call.integers("last_occluded", ("O",), low=-4, high=7, shared=True).clamp_(min=-1)
    for (copy, original), values in zip(_telling_pairs(call), ((3, 5), (4, 2), (-1, 1)), strict=False):
        last[copy], last[original] = values
    return last.where(last < 0, last + call.setting("first_frame", 0))


def draw_scores(call: Call, counts: list[int]) -> Tensor:
    """The scores of the rank's objects."""
    return copied(call, "obj_scores_local", call.normal("obj_scores_local", (counts[call.rank],), std=3.0))


def draw_masks(call: Call, counts: list[int], everyone: tuple[Tensor, Tensor]) -> Tensor:
    """Logits of the rank's part of the discs of `everyone`.

    They are positive inside a disc, negative outside, with noise that seldom changes the sign.
    """
    centre, radius = everyone
    first = sum(counts[: call.rank])
    own = slice(first, first + counts[call.rank])
    rows, columns = (torch.arange(call.dims[side], device=call.device, dtype=torch.float32) for side in ("Hm", "Wm"))
    far = (rows.view(1, -1, 1) - centre[own, 0].view(-1, 1, 1)).square()
    far = far + (columns.view(1, 1, -1) - centre[own, 1].view(-1, 1, 1)).square()
    inside = far.sqrt() <= radius[own].view(-1, 1, 1)
    if _is_reached(call):
        for place, pixels in _pixels_of_pairs(call).items():
            if 0 <= place - first < len(inside):
                inside[place - first] = (torch.arange(far[0].numel(), device=call.device) < pixels).view(far[0].shape)
    noise = call.normal("noise", (counts[call.rank], "Hm", "Wm"), dtype=torch.float32)
    if _has_exact_copies(call) or _is_reached(call):
        noise.clamp_(-2, 2)  # no sign changes, so that copies cover the very same pixels
    logits = torch.where(inside, 3.0, -3.0) + noise
    if call.setting("zero_logits", usual=False):
        logits.masked_fill_(~inside & (noise > 0), 0.0)
        logits.masked_fill_(inside & (noise > 0.5), SUBNORMAL)
    if call.setting("empty_masks", usual=False):
        # A single object is no pair.
        empty = torch.tensor(next(iter(_telling_pairs(call)), (0,)), device=call.device) - first
        empty = empty[(empty >= 0) & (empty < len(logits))]
        logits[empty] = -logits[empty].abs()
    return copied(call, "low_res_masks_local", logits.to(call.dtype))


def _is_reached(call: Call) -> bool:
    return call.setting("threshold", None) in {"reached", "missed"}


def _reached(call: Call) -> tuple[float, int, int]:
    """One of `REACHED`, the same on all ranks."""
    return REACHED[int(call.integers("reached", (), low=0, high=len(REACHED), shared=True))]


def _pixels_of_pairs(call: Call) -> dict[int, int]:
    """How many of the first pixels objects cover: one pair reaches the threshold exactly, another covers all.

    Where there are more than 2^16 pixels, one of that pair covers too few of them to reach the threshold.
    """
    threshold, both, union = _reached(call)
    wholes = call.dims["Hm"] * call.dims["Wm"]
    pixels = ((both, union), (wholes if wholes == 1 << 16 else int(threshold * wholes) - 99, wholes))
    return {
        place: count
        for pair, counts in zip(_telling_pairs(call), pixels, strict=False)
        for place, count in zip(pair, counts, strict=True)
    }


def _has_exact_copies(call: Call) -> bool:
    return bool(call.setting("exact_copies", usual=False))


def discs(call: Call) -> tuple[Tensor, Tensor]:
    """Centres (O, 2) and radii (O,) of all objects, in pixels, the same on every rank.

    An object is a copy of one before it with probability `COPIES`, shifted by up to 0.45 of its radius in each
    direction: overlaps then lie on both sides of the threshold.
    """
    side = min(call.dims["Hm"], call.dims["Wm"])
    draws = call.uniform("discs", ("O", 6), dtype=torch.float32, shared=True).tolist()
    found = [((0.2 + 0.6 * x) * side, (0.2 + 0.6 * y) * side, (0.08 + 0.12 * size) * side) for x, y, size, *_ in draws]
    for place, (*_, chance, right, down) in enumerate(draws[1:], start=1):
        if chance < COPIES:
            x, y, radius = found[int(chance / COPIES * place)]
            found[place] = (x + (right - 1 / 2) * 0.9 * radius, y + (down - 1 / 2) * 0.9 * radius, radius)
    pairs = _telling_pairs(call)
    if pairs and _has_exact_copies(call):
        x, y, _ = found[pairs[0][1]]
        found[pairs[0][1]] = (round(x), round(y), 0.5)  # a union of one pixel
    for (copy, original), telling_shift in zip(pairs, TELLING_SHIFTS, strict=False):
        x, y, radius = found[original]
        found[copy] = (x + (0.0 if _has_exact_copies(call) else telling_shift) * radius, y, radius)
    whole = torch.tensor(found, dtype=torch.float32, device=call.device)
    return whole[:, :2], whole[:, 2]
