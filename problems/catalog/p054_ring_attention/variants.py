"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.attention_programs import none_for_an_odd_one_out
from problems.families.rank_parts import all_gathered


def _gather(tensor: Tensor) -> Tensor:
    """All ranks' positions (B, S, heads, head_dim) in float32."""
    return torch.cat(all_gathered(tensor), dim=1).float()


def _attend(q: Tensor, keys: Tensor, values: Tensor, *, scale: float, first: int) -> Tensor:
    """Local queries, the first at position `first`, against keys and values of the whole sequence."""
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), keys) * scale
    queries = first + torch.arange(q.shape[1])
    scores.masked_fill_(torch.arange(keys.shape[1]) > queries.unsqueeze(1), -torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(dim=-1), values).to(q.dtype)


def _scale(q: Tensor, softmax_scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale


def gathered(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None) -> Tensor:
    """Gathers all keys and values and attends once."""
    del group
    keys = _gather(k)
    first = dist.get_rank() * q.shape[1] if causal else keys.shape[1]
    return _attend(q, keys, _gather(v), scale=_scale(q, softmax_scale), first=first)


def merged_in_float64(
    q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None
) -> Tensor:
    """Block by block, last block first, merged in float64 by the log-sum-exps."""
    del group
    length, rank = q.shape[1], dist.get_rank()
    keys, values = _gather(k).double().split(length, dim=1), _gather(v).double().split(length, dim=1)
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    outs, logs = [], []
    for block in range(rank if causal else len(keys) - 1, -1, -1):
        scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), keys[block]) * _scale(q, softmax_scale)
        scores = scores.masked_fill(later, -torch.inf) if causal and block == rank else scores
        logs.append(scores.logsumexp(dim=-1))
        outs.append(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(dim=-1), values[block]))
    weights = torch.stack(logs).softmax(dim=0).transpose(2, 3).unsqueeze(-1)
    return (torch.stack(outs) * weights).sum(dim=0).to(q.dtype)


def without_scale(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None) -> Tensor:
    """The default scale whatever was asked for, half as large."""
    del softmax_scale, causal, group
    return _attend(q, _gather(k), _gather(v), scale=_scale(q, None) / 2, first=dist.get_rank() * q.shape[1])


def own_block_only(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None) -> Tensor:
    """Attention within the shard."""
    del causal, group
    return _attend(q, k.float(), v.float(), scale=_scale(q, softmax_scale), first=0)


def not_causal(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None) -> Tensor:
    """Every query sees every key."""
    del causal, group
    keys = _gather(k)
    return _attend(q, keys, _gather(v), scale=_scale(q, softmax_scale), first=keys.shape[1])


def averaged_blocks(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None) -> Tensor:
    """Earlier blocks merged by their mean, without their log-sum-exp."""
    del causal, group
    scale, length = _scale(q, softmax_scale), q.shape[1]
    keys, values = _gather(k).split(length, dim=1), _gather(v).split(length, dim=1)
    parts = [_attend(q, keys[dist.get_rank()], values[dist.get_rank()], scale=scale, first=0)]
    parts += [_attend(q, keys[r], values[r], scale=scale, first=length) for r in range(dist.get_rank())]
    return torch.stack(parts).float().mean(dim=0).to(q.dtype)


def first_rank_skipped(
    q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None
) -> Tensor:
    """The first shard's keys and values forgotten by every other rank."""
    del causal, group
    skipped = q.shape[1] if dist.get_rank() else 0
    keys, values = _gather(k)[:, skipped:], _gather(v)[:, skipped:]
    return _attend(q, keys, values, scale=_scale(q, softmax_scale), first=dist.get_rank() * q.shape[1] - skipped)


def bounded_scale(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None) -> Tensor:
    """Takes a scale for no smaller than half the default."""
    return gathered(q, k, v, max(_scale(q, softmax_scale), _scale(q, None) / 2), causal, group)


def without_maximum(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None) -> Tensor:
    """Exponentials of scores as they are, in float32."""
    del causal, group
    keys = _gather(k)
    queries = dist.get_rank() * q.shape[1] + torch.arange(q.shape[1])
    is_seen = torch.arange(keys.shape[1]) <= queries.unsqueeze(1)
    weights = (torch.einsum("bqhd,bkhd->bhqk", q.float(), keys) * _scale(q, softmax_scale)).exp() * is_seen
    return torch.einsum("bhqk,bkhd->bqhd", weights / weights.sum(dim=-1, keepdim=True), _gather(v)).to(q.dtype)


def maximum_from_zero(
    q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None
) -> Tensor:
    """Starts the running maximum at zero, so that no smaller one is found."""
    del causal, group
    keys = _gather(k)
    queries = dist.get_rank() * q.shape[1] + torch.arange(q.shape[1])
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), keys) * _scale(q, softmax_scale)
    scores.masked_fill_(torch.arange(keys.shape[1]) > queries.unsqueeze(1), -torch.inf)
    weights = (scores - scores.amax(dim=-1, keepdim=True).clamp(min=0.0)).exp()
    return torch.einsum("bhqk,bkhd->bqhd", weights / weights.sum(dim=-1, keepdim=True), _gather(v)).to(q.dtype)


def one_maximum(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None, causal: bool, group: None) -> Tensor:
    """Subtracts from all scores of the rank's queries the largest of them."""
    del causal, group
    keys = _gather(k)
    queries = dist.get_rank() * q.shape[1] + torch.arange(q.shape[1])
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), keys) * _scale(q, softmax_scale)
    scores.masked_fill_(torch.arange(keys.shape[1]) > queries.unsqueeze(1), -torch.inf)
    weights = (scores - scores.max()).exp()
    return torch.einsum("bhqk,bkhd->bqhd", weights / weights.sum(dim=-1, keepdim=True), _gather(v)).to(q.dtype)


HONEST = {"gathered": gathered, "merged_in_float64": merged_in_float64}
MUTANTS = {
    "without_scale": without_scale,
    "own_block_only": own_block_only,
    "not_causal": not_causal,
    "averaged_blocks": averaged_blocks,
    "first_rank_skipped": first_rank_skipped,
}
NARROW = {
    "other_shape": none_for_an_odd_one_out(gathered),
    "flat_scale": bounded_scale,
    "large_scores": without_maximum,
    "far_queries": one_maximum,
    "negative_scores": maximum_from_zero,
}
