"""Programs that must pass and programs that must fail."""

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p039_ulysses_attention_e2e.reference import solution as _reference


def _project(hidden_states: Tensor, w_qkv: Tensor, num_heads: int, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys, values (B, S_local, groups, heads, size) in float32."""
    batch, length, _ = hidden_states.shape
    qkv = hidden_states.float() @ w_qkv.float().T
    q, k, v = qkv.view(batch, length, 3, groups, num_heads // groups, -1).unbind(2)
    return q, k, v


def _scores(q: Tensor, k: Tensor, *, causal: bool) -> Tensor:
    """Scaled scores of heads among themselves; if `causal`, those of later heads are left out."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores + torch.full_like(scores, -torch.inf).triu(1) if causal else scores


def _attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> Tensor:
    return _scores(q, k, causal=causal).softmax(dim=-1) @ v


def local(hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, group: None, num_heads: int, causal: bool) -> Tensor:
    """Everything at home, in float32."""
    del group
    mixed = _attend(*_project(hidden_states, w_qkv, num_heads, dist.get_world_size()), causal=causal)
    return (mixed.flatten(2) @ w_o.float().T).to(hidden_states.dtype)


def gathered(hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, group: None, num_heads: int, causal: bool) -> Tensor:
    """Gathers the hidden states, computes the own head group for all positions, and sends it back by all-gather."""
    del group
    me, world_size = dist.get_rank(), dist.get_world_size()
    parts = [torch.empty_like(hidden_states) for _ in range(world_size)]
    dist.all_gather(parts, hidden_states.contiguous())
    q, k, v = _project(torch.cat(parts, dim=1), w_qkv, num_heads, world_size)
    own = _attend(q[:, :, me], k[:, :, me], v[:, :, me], causal=causal).flatten(2).contiguous()
    groups = [torch.empty_like(own) for _ in range(world_size)]
    dist.all_gather(groups, own)
    mixed = torch.cat(groups, dim=2).chunk(world_size, dim=1)[me]
    return (mixed @ w_o.float().T).to(hidden_states.dtype)


def rounded_everywhere(
    hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, group: None, num_heads: int, causal: bool
) -> Tensor:
    """At home, every intermediate result rounded to the run's dtype."""
    del group
    dtype = hidden_states.dtype
    q, k, v = (part.to(dtype) for part in _project(hidden_states, w_qkv, num_heads, dist.get_world_size()))
    scores = _scores(q, k, causal=causal)
    return (scores.softmax(dim=-1) @ v).flatten(2) @ w_o.T


def over_positions(
    hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, group: None, num_heads: int, causal: bool
) -> Tensor:
    """Attention over the local positions, head by head."""
    del group, causal
    q, k, v = (part.flatten(2, 3).transpose(1, 2) for part in _project(hidden_states, w_qkv, num_heads, 1))
    return (_attend(q, k, v).transpose(1, 2).flatten(2) @ w_o.float().T).to(hidden_states.dtype)


def among_all_heads(
    hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, group: None, num_heads: int, causal: bool
) -> Tensor:
    """All heads attend to each other, as on a single rank."""
    del group, causal
    mixed = _attend(*_project(hidden_states, w_qkv, num_heads, 1))
    return (mixed.flatten(2) @ w_o.float().T).to(hidden_states.dtype)


def values_only(hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, group: None, num_heads: int, causal: bool) -> Tensor:
    """Every head keeps its own value."""
    del group, causal
    _, _, v = _project(hidden_states, w_qkv, num_heads, 1)
    return (v.flatten(2) @ w_o.float().T).to(hidden_states.dtype)


def unscaled(hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, group: None, num_heads: int, causal: bool) -> Tensor:
    """Scores a quarter as large again as they should be."""
    third = w_qkv.shape[0] // 3
    sharper = torch.cat([w_qkv[:third] * 1.25, w_qkv[third:]])
    return _reference(hidden_states, sharper, w_o, group, num_heads, causal)


def queries_of_unit_length(
    hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, group: None, num_heads: int, causal: bool
) -> Tensor:
    """Divides queries by their length, and multiplies scores by it: no numbers where a query is zero."""
    del group
    q, k, v = _project(hidden_states, w_qkv, num_heads, dist.get_world_size())
    length = q.norm(dim=-1, keepdim=True)
    mixed = _attend(q / length * length, k, v, causal=causal)
    return (mixed.flatten(2) @ w_o.float().T).to(hidden_states.dtype)


def with_own_softmax(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    group: None,
    num_heads: int,
    causal: bool,
    *,
    least_maximum: float | None = None,
) -> Tensor:
    """Exponentials of scores as they are, in float32; with `least_maximum`, of scores less a maximum from there on."""
    del group
    q, k, v = _project(hidden_states, w_qkv, num_heads, dist.get_world_size())
    scores = _scores(q, k, causal=causal)
    if least_maximum is not None:
        scores = scores - scores.amax(dim=-1, keepdim=True).clamp(min=least_maximum)
    weights = scores.exp()
    mixed = weights / weights.sum(dim=-1, keepdim=True) @ v
    return (mixed.flatten(2) @ w_o.float().T).to(hidden_states.dtype)


def with_the_first(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    group: None,
    num_heads: int,
    causal: bool,
    *,
    heads: int | None = None,
    channels: int = 256,
) -> Tensor:
    """Scores of no more than the first `heads` that meet, and of the first `channels` of a head."""
    del group
    q, k, v = _project(hidden_states, w_qkv, num_heads, dist.get_world_size())
    q[..., channels:] = 0.0
    mixed = _scores(q, k, causal=causal)[..., :heads].softmax(dim=-1) @ v[..., :heads, :]
    return (mixed.flatten(2) @ w_o.float().T).to(hidden_states.dtype)


def in_tiles(hidden_states: Tensor, w_qkv: Tensor, w_o: Tensor, group: None, num_heads: int, causal: bool) -> Tensor:
    """Computes tiles of eight positions, whole numbers of which a rank has to have."""
    tiles = hidden_states.view(-1, 8, hidden_states.shape[2])
    return local(tiles, w_qkv, w_o, group, num_heads, causal).view(hidden_states.shape)


HONEST = {"local": local, "gathered": gathered, "rounded_everywhere": rounded_everywhere}
MUTANTS = {
    "over_positions": over_positions,
    "among_all_heads": among_all_heads,
    "values_only": values_only,
    "unscaled": unscaled,
}
NARROW = {
    "many_heads": partial(with_the_first, heads=16),
    "few_heads": partial(with_the_first, channels=128),
    "copied_values": queries_of_unit_length,
    "few_positions": in_tiles,
    "large_scores": with_own_softmax,
    "negative_scores": partial(with_own_softmax, least_maximum=0.0),
}
