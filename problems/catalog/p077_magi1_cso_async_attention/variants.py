"""Programs that must pass and programs that must fail."""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p077_magi1_cso_async_attention.reference import attend, solution
from problems.families.rank_parts import all_gathered


def in_float32(query: Tensor, key_value: Tensor, *rest: Any) -> Tensor:
    """Everything in float32, rounded once."""
    return solution(query.float(), key_value.float(), *rest).to(query.dtype)


def _all_keys(key_value: Tensor, ranges: int, clip: int | None) -> Tensor:
    """The joint key axis with all heads."""
    parts = all_gathered(key_value)
    joined = torch.cat([part.unflatten(0, (ranges, -1)) for part in parts], dim=1)
    return joined[:, : clip or None].flatten(0, 1)


def keys_gathered(
    query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, clip: int | None, _group: Any, *, shift: int = 0
) -> Tensor:
    """Gathers keys and values; queries stay where they are. `shift` moves every block."""
    keys = _all_keys(key_value, ranges, clip)
    blocks = [(max(0, start + shift), end + shift) for start, end in k_ranges.tolist()]
    parts = [attend(part, keys[start:end]) for part, (start, end) in zip(query.chunk(ranges), blocks, strict=True)]
    return torch.cat(parts)


def probabilities_rounded(
    query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, clip: int | None, _group: Any
) -> Tensor:
    """Rounds unnormalised probabilities before the second product, as fused kernels do."""
    keys = _all_keys(key_value, ranges, clip)
    keys = keys.repeat_interleave(query.shape[1] // keys.shape[1], dim=1)
    parts = []
    for part, (start, end) in zip(query.chunk(ranges), k_ranges.tolist(), strict=True):
        key, value = keys[start:end].chunk(2, dim=-1)
        scores = torch.einsum("qhd,khd->hqk", part.float(), key.float()) * query.shape[-1] ** -0.5
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        mixed = torch.einsum("hqk,khd->qhd", weights.to(query.dtype).float(), value.float())
        parts.append((mixed / weights.sum(-1).T[..., None]).to(query.dtype))
    return torch.cat(parts)


def blocks_shifted(*arguments: Any) -> Tensor:
    """Every block of keys one entry too early."""
    return keys_gathered(*arguments, shift=-1)


def own_blocks(query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, clip: int, group: Any) -> Tensor:
    """Attends to the range's own tokens, whatever the blocks say."""
    borders = torch.arange(ranges, device=k_ranges.device) * clip
    return solution(query, key_value, torch.stack([borders, borders + clip], dim=1), ranges, clip, group)


def padding_kept(query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, _clip: int, group: Any) -> Tensor:
    """Keeps the padding tokens on the key axis; where there are none, drops a token."""
    whole = query.shape[0] // ranges * dist.get_world_size()
    return solution(query, key_value, k_ranges, ranges, whole if whole > _clip else _clip - 1, group)


def mean_of_values(query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, clip: int, group: Any) -> Tensor:
    """Weighs all keys equally."""
    return solution(torch.zeros_like(query), key_value, k_ranges, ranges, clip, group)


def in_float8(query: Tensor, key_value: Tensor, *rest: Any) -> Tensor:
    """Rounds queries, keys and values to 8 bits (e4m3)."""
    query, key_value = (x.to(torch.float8_e4m3fn).to(x.dtype) for x in (query, key_value))
    return solution(query, key_value, *rest)


def first_and_last_apart(
    query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, clip: int | None, group: Any
) -> Tensor:
    """The first and the last range outside the loop over the others, as pipelines have it: one is taken for two."""
    out = keys_gathered(query, key_value, k_ranges, ranges, clip, group)
    first, *between, last = (out.chunk(ranges) * 2)[: max(2, ranges)]
    return torch.cat([first, *between, last])


def four_ranges_at_most(
    query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, clip: int | None, group: Any
) -> Tensor:
    """Gives nothing to ranges after the first four."""
    out = keys_gathered(query, key_value, k_ranges, ranges, clip, group)
    out[4 * len(query) // ranges :] = 0
    return out


def first_key_head_of_a_rank(query: Tensor, key_value: Tensor, *rest: Any) -> Tensor:
    """Has a rank attend to a single head of keys, that of the first of its query heads."""
    heads, own = query.shape[1], query.shape[1] // dist.get_world_size()
    first = torch.arange(heads, device=query.device) // own * own
    return keys_gathered(query, key_value[:, first * key_value.shape[1] // heads].contiguous(), *rest)


def sixteen_to_a_key_head(query: Tensor, key_value: Tensor, *rest: Any) -> Tensor:
    """Computes no more than sixteen query heads to a head of keys, the rows of a tile."""
    out = keys_gathered(query, key_value, *rest)
    out.unflatten(1, (key_value.shape[1], -1))[:, :, 16:] = 0
    return out


def from_own_on(query: Tensor, key_value: Tensor, k_ranges: Tensor, *rest: Any) -> Tensor:
    """Takes no block to begin before the previous range."""
    starts = torch.arange(len(k_ranges), device=k_ranges.device) - 1
    least = starts * (int(k_ranges[-1, 1]) // len(k_ranges))
    return keys_gathered(query, key_value, torch.stack([k_ranges[:, 0].maximum(least), k_ranges[:, 1]], dim=1), *rest)


def none_beyond_the_next(query: Tensor, key_value: Tensor, k_ranges: Tensor, *rest: Any) -> Tensor:
    """Takes no block to end beyond the range after its own, as pipelines have it that work in the order of ranges."""
    ends = (torch.arange(len(k_ranges), device=k_ranges.device) + 2) * (int(k_ranges[-1, 1]) // len(k_ranges))
    return keys_gathered(query, key_value, torch.stack([k_ranges[:, 0], k_ranges[:, 1].minimum(ends)], dim=1), *rest)


def two_keys_at_least(query: Tensor, key_value: Tensor, k_ranges: Tensor, *rest: Any) -> Tensor:
    """Takes a block of a single key for one of two."""
    is_single = k_ranges[:, 1] - k_ranges[:, 0] == 1
    starts = torch.where(is_single & (k_ranges[:, 0] > 0), k_ranges[:, 0] - 1, k_ranges[:, 0])
    ends = torch.where(is_single & (k_ranges[:, 0] == 0), k_ranges[:, 1] + 1, k_ranges[:, 1])
    return keys_gathered(query, key_value, torch.stack([starts, ends], dim=1), *rest)


def padding_cut_anyway(
    query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, clip: int | None, group: Any
) -> Tensor:
    """Leaves out the last token of every range where no argument says how many are real."""
    whole = query.shape[0] // ranges * dist.get_world_size()
    return keys_gathered(query, key_value, k_ranges, ranges, whole - 1 if clip is None else clip, group)


def padding_on_the_last_rank(
    query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, clip: int | None, _group: Any
) -> Tensor:
    """Leaves padding out on the last rank alone."""
    *others, last = (part.unflatten(0, (ranges, -1)) for part in all_gathered(key_value))
    padding = (len(others) + 1) * last.shape[1] - clip if clip else 0
    keys = torch.cat([*others, last[:, : max(0, last.shape[1] - padding)]], dim=1).flatten(0, 1)
    parts = zip(query.chunk(ranges), k_ranges.tolist(), strict=True)
    return torch.cat([attend(part, keys[start:end]) for part, (start, end) in parts])


def zero_taken_for_a_number(
    query: Tensor, key_value: Tensor, k_ranges: Tensor, ranges: int, clip: int | None, group: Any
) -> Tensor:
    """Takes all tokens for keys where `clip` is None, and none where it is 0."""
    if clip == 0:
        return torch.zeros_like(query)
    return keys_gathered(query, key_value, k_ranges, ranges, clip, group)


def without_maximum(
    query: Tensor,
    key_value: Tensor,
    k_ranges: Tensor,
    ranges: int,
    clip: int | None,
    _group: Any,
    *,
    least_maximum: float | None = None,
) -> Tensor:
    """Exponentials of scores as they are, in float32; with `least_maximum`, of scores less a maximum from there on."""
    keys = _all_keys(key_value, ranges, clip)
    keys = keys.repeat_interleave(query.shape[1] // keys.shape[1], dim=1)
    parts = []
    for part, (start, end) in zip(query.chunk(ranges), k_ranges.tolist(), strict=True):
        key, value = keys[start:end].float().chunk(2, dim=-1)
        scores = torch.einsum("qhd,khd->hqk", part.float(), key) * query.shape[-1] ** -0.5
        if least_maximum is not None:
            scores -= scores.amax(dim=-1, keepdim=True).clamp(min=least_maximum)
        weights = scores.exp()
        mixed = torch.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdim=True), value)
        parts.append(mixed.to(query.dtype))
    return torch.cat(parts)


HONEST = {
    "float32": in_float32,
    "keys_gathered": keys_gathered,
    "probabilities_rounded": probabilities_rounded,
}
MUTANTS = {
    "blocks_shifted": blocks_shifted,
    "own_blocks": own_blocks,
    "padding_kept": padding_kept,
    "mean_of_values": mean_of_values,
    "in_float8": in_float8,
}
NARROW = {
    "other_ranges": four_ranges_at_most,
    "eight_key_heads": first_key_head_of_a_rank,
    "many_query_heads": sixteen_to_a_key_head,
    "one_range": first_and_last_apart,
    "up_to_own_range": from_own_on,
    "all_keys": none_beyond_the_next,
    "single_keys": two_keys_at_least,
    "much_padding": padding_on_the_last_rank,
    "no_padding": padding_cut_anyway,
    "zero_for_none": zero_taken_for_a_number,
    "large_scores": without_maximum,
    "negative_scores": partial(without_maximum, least_maximum=0.0),
}
