"""Arguments of one rank for one call.

Query heads have a sharpness of their own, so that attention concentrates on few keys and outputs are as large as
values are. Blocks of keys have unequal lengths and overlap.
"""

import torch
from torch import Tensor

from problems.values import Arguments, Call

SHARPNESS = 3.0


def make_inputs(call: Call) -> Arguments:
    """Queries (T, Hq, hd), keys and values (T, Hkv, 2 hd), blocks of keys (ranges, 2), and the schedule."""
    sharpness = call.uniform("sharpness", ("Hq", 1), low=-1.0, high=0.0, dtype=torch.float32, shared=True).exp2_()
    query = call.normal("query", ("T", "Hq", "hd"), std=SHARPNESS, dtype=torch.float32) * sharpness
    return {
        "query": query.to(call.dtype),
        "key_value": keys_and_values(call),
        "k_ranges": _blocks(call),
        "cp_shuffle_num": call.dims["ranges"],
        "clip_token_nums": call.dims["clip"],
        "group": None,
    }


def keys_and_values(call: Call) -> Tensor:
    """The rank's keys and values (T, Hkv, 2 hd), all that peers need of it."""
    return call.normal("key_value", ("T", "Hkv", "hd2"))


def _blocks(call: Call) -> Tensor:
    """(ranges, 2) of beginnings and ends: around the own clip keys, moved by up to a quarter of them.

    Ends are moved as the beginnings are, in the opposite order, so that the number of pairs is the same in every call.
    The last range moves forward and backward in turn: never are the blocks those of the call before.
    """
    count, clip = call.dims["ranges"], call.dims["clip"]
    shifts = call.integers("blocks", (count,), low=-(clip // 4), high=clip // 4 + 1, shared=True)
    shifts[0] = 0
    shifts[-1] = shifts[-1].abs().clamp(min=1) * (1 if call.index % 2 else -1)
    own = torch.arange(count, device=call.device) * clip
    return torch.stack([own + shifts, own + clip + shifts.flip(0)], dim=1)
