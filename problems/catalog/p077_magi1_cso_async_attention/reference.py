"""The baseline: keys and values once to head shards, queries and outputs range by range, exchanges running ahead."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

Group = dist.ProcessGroup | None
# Not cuDNN, torch's choice on Hopper: a length that it has not met costs some 40 ms (torch 2.11.0, 23 November 2026).
BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def solution(
    query: Tensor,
    key_value: Tensor,
    k_ranges: Tensor,
    cp_shuffle_num: int,
    clip_token_nums: int | None = None,
    group: Group = None,
) -> Tensor:
    """Attention output (T, Hq, hd) of the rank's tokens.

    `query` (T, Hq, hd) and `key_value` (T, Hkv, 2 hd) hold `cp_shuffle_num` ranges of equal length one after another;
    range i attends to entries k_ranges[i, 0] to k_ranges[i, 1] - 1 of the joint key axis.
    """
    # All queries leave at once; range i + 1 travels while range i is computed, and so does its output.
    sent = [start_to_heads(part, group) for part in query.chunk(cp_shuffle_num)]
    keys = key_axis(key_value, cp_shuffle_num, clip_token_nums, group)
    outputs = []
    for (received, work), (start, end) in zip(sent, k_ranges.tolist(), strict=True):
        work.wait()
        outputs.append(start_to_tokens(attend(received.flatten(0, 1), keys[start:end]), group))
    for _, work in outputs:
        work.wait()
    return torch.cat([received.transpose(0, 1).flatten(1, 2) for received, _ in outputs])


def attend(query: Tensor, key_value: Tensor) -> Tensor:
    """Attention of (n, heads, hd) over (m, kv heads, 2 hd)."""
    keys, values = (part.transpose(0, 1)[None] for part in key_value.chunk(2, dim=-1))
    with sdpa_kernel(BACKENDS):
        out = scaled_dot_product_attention(query.transpose(0, 1)[None], keys, values, enable_gqa=True)
    return out[0].transpose(0, 1)


def key_axis(key_value: Tensor, ranges: int, clip: int | None, group: Group) -> Tensor:
    """Own heads of the keys and values of all ranks (ranges * clip, kv heads, 2 hd), without padding tokens."""
    world_size = dist.get_world_size(group)
    if key_value.shape[1] < world_size:
        key_value = key_value.repeat_interleave(world_size // key_value.shape[1], dim=1)
    received, work = start_to_heads(key_value, group)
    work.wait()
    by_range = received.unflatten(1, (ranges, -1)).transpose(0, 1).flatten(1, 2)
    return by_range[:, : clip or None].flatten(0, 1)


def start_to_heads(x: Tensor, group: Group) -> tuple[Tensor, Any]:
    """Begin to exchange (n, heads, d) of the own tokens for (W, n, heads / W, d) of the own heads."""
    sent = x.unflatten(1, (dist.get_world_size(group), -1)).transpose(0, 1).contiguous()
    received = torch.empty_like(sent)
    return received, dist.all_to_all_single(received, sent, group=group, async_op=True)


def start_to_tokens(x: Tensor, group: Group) -> tuple[Tensor, Any]:
    """Begin the way back: (W * n, heads, d) of the own heads for (W, n, heads, d) of the own tokens."""
    sent = x.unflatten(0, (dist.get_world_size(group), -1)).contiguous()
    received = torch.empty_like(sent)
    return received, dist.all_to_all_single(received, sent, group=group, async_op=True)
