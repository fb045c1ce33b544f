"""Arguments of one rank for one call.

Query heads have a sharpness of their own, so that attention concentrates on few keys and outputs are as large as
values are. Blocks of keys have unequal lengths and overlap.
"""

import torch
from torch import Tensor

from problems.families import attention
from problems.inputs.regime_values import in_regime, magnitude
from problems.inputs.values import Arguments, Call

SHARPNESS = 3.0


def make_inputs(call: Call) -> Arguments:
    """Queries (T, Hq, hd), keys and values (T, Hkv, 2 hd), blocks of keys (ranges, 2), and the schedule."""
    sharpness = call.uniform("sharpness", ("Hq", 1), low=-1.0, high=0.0, dtype=torch.float32, shared=True).exp2_()
    query = call.normal("query", ("T", "Hq", "hd"), std=SHARPNESS, dtype=torch.float32) * sharpness
    parts, clip = ranges_and_clip(call)
    is_told = call.setting("clip_told", usual=True)
    return {
        "query": _with_common_scores(call, attention.in_score_regime(call, query.to(call.dtype))),
        "key_value": keys_and_values(call),
        "k_ranges": _blocks(call, parts, clip),
        "cp_shuffle_num": parts,
        "clip_token_nums": clip if is_told else call.setting("all_tokens", None),
        "group": None,
    }


def ranges_and_clip(call: Call) -> tuple[int, int]:
    """The number of ranges, and how many tokens of each are real: the size's own, or as the regime has them."""
    parts = int(call.setting("ranges", call.dims["ranges"]))
    tokens = call.world_size * call.dims["T"] // parts
    if (part := call.setting("clip_part", None)) is not None:
        return parts, max(1, int(part * tokens))
    padding = call.world_size * call.dims["spb"] - call.dims["clip"]
    return parts, tokens - padding if call.setting("clip_told", usual=True) else tokens


def _with_common_scores(call: Call, query: Tensor) -> Tensor:
    """`query`, half of it so many times as large in the channel that adds the same to all scores."""
    if (times := call.setting("common_scores", None)) is not None:
        query[..., 0] *= times ** call.integers("regime's far queries", ("T", "Hq"), low=0, high=2).float()
    return query


def keys_and_values(call: Call) -> Tensor:
    """The rank's keys and values (T, Hkv, 2 hd), all that peers need of it."""
    drawn = call.normal("key_value", ("T", "Hkv", "hd2"))
    if call.regime is None:
        return drawn
    keys, values = in_regime(call, "key_value", drawn).chunk(2, dim=2)
    if call.setting("first_entry", None) == "zero":
        values[..., 0] = 0
    return torch.cat([attention.in_score_regime(call, keys / magnitude(call), are_keys=True), values], dim=2)


def _blocks(call: Call, count: int, clip: int) -> Tensor:
    """(ranges, 2) of beginnings and ends: around the own clip keys, moved by up to a quarter of them.

    Ends are moved as the beginnings are, in the opposite order, so that the number of pairs is the same in every call.
    The last range moves forward and backward in turn: never are the blocks those of the call before.
    """
    own = torch.arange(count, device=call.device) * clip
    if (seen := call.setting("seen", None)) is not None:
        return _regular_blocks(call, own, clip, seen)
    shifts = call.integers("blocks", (count,), low=-(clip // 4), high=clip // 4 + 1, shared=True)
    shifts[0] = 0
    shifts[-1] = shifts[-1].abs().clamp(min=1) * (1 if call.index % 2 else -1)
    return torch.stack([own + shifts, own + clip + shifts.flip(0)], dim=1)


def _regular_blocks(call: Call, own: Tensor, clip: int, seen: str) -> Tensor:
    """Blocks of all ranges, of those up to the own one, or of any, `clip` or single keys anywhere."""
    if seen == "all":
        return torch.stack([torch.zeros_like(own), torch.full_like(own, len(own) * clip)], dim=1)
    if seen == "up_to_own":
        return torch.stack([torch.zeros_like(own), own + clip], dim=1)
    if seen == "as_many":
        start = call.integers("regime's starts", (len(own),), low=0, high=(len(own) - 1) * clip + 1, shared=True)
        return torch.stack([start, start + clip], dim=1)
    if seen == "any":
        ends = call.integers("regime's blocks", (len(own), 2), low=0, high=len(own) * clip, shared=True)
        blocks = ends.sort(dim=1).values + torch.arange(2, device=call.device)
        if call.integers("regime's repeat", (), low=0, high=2, shared=True) == 0:
            blocks[-1] = blocks[0]
        return blocks
    key = call.integers("regime's keys", (len(own),), low=0, high=len(own) * clip, shared=True)
    return torch.stack([key, key + 1], dim=1)
