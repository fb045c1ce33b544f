"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p055_ring_attention_tp.reference import solution as _reference
from problems.rank_parts import all_gathered

Group = dist.ProcessGroup


def _gathered(tensor: Tensor, group: Group) -> Tensor:
    """All context ranks' positions (dimension 1)."""
    return torch.cat(all_gathered(tensor, group), dim=1)


def _context(hidden: Tensor, w_qkv: Tensor, heads: int, scale: float | None, *, own: slice, unseen: int = 0) -> Tensor:
    """Heads' results (B, S_local, features) in float32 at the positions `own`.

    `hidden` holds the whole sequence; the first `unseen` positions are hidden from everyone.
    """
    batch, length, _ = hidden.shape
    q, k, v = (hidden.float() @ w_qkv.float().T).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    positions = torch.arange(length)
    is_hidden = (positions > positions.unsqueeze(1)) | (positions < unseen)
    weights = scores.masked_fill(is_hidden, -torch.inf).softmax(dim=-1).nan_to_num(0.0)
    return (weights @ v).transpose(1, 2).flatten(2)[:, own]


def _own(hidden_states: Tensor, cp_group: Group) -> slice:
    """The own positions within the sequence."""
    start = dist.get_rank(cp_group) * hidden_states.shape[1]
    return slice(start, start + hidden_states.shape[1])


def hidden_states_gathered(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    tp_group: Group,
    cp_group: Group,
) -> Tensor:
    """Gathers hidden states, not keys and values, and computes in float32 throughout."""
    del causal
    heads, own = num_heads // dist.get_world_size(tp_group), _own(hidden_states, cp_group)
    context = _context(_gathered(hidden_states, cp_group), w_qkv, heads, softmax_scale, own=own)
    out = context @ w_o.float().T
    dist.all_reduce(out, group=tp_group)
    return out.to(hidden_states.dtype)


def heads_exchanged(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    tp_group: Group,
    cp_group: Group,
) -> Tensor:
    """Gathers the pair's heads and weights and makes one product of them, rounding the heads first."""
    del causal
    heads, own = num_heads // dist.get_world_size(tp_group), _own(hidden_states, cp_group)
    context = _context(_gathered(hidden_states, cp_group), w_qkv, heads, softmax_scale, own=own)
    context = context.to(hidden_states.dtype).contiguous()
    pair = all_gathered(context, tp_group)
    weights = [torch.empty_like(w_o) for _ in pair]
    dist.all_gather(weights, w_o, group=tp_group)
    return torch.cat(pair, dim=2) @ torch.cat(weights, dim=1).T


def first_positions_unseen(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    tp_group: Group,
    cp_group: Group,
) -> Tensor:
    """The first quarter of the sequence is forgotten, as when a ring stops too early."""
    del causal
    heads, own = num_heads // dist.get_world_size(tp_group), _own(hidden_states, cp_group)
    hidden = _gathered(hidden_states, cp_group)
    context = _context(hidden, w_qkv, heads, softmax_scale, own=own, unseen=hidden.shape[1] // 4)
    out = context.to(hidden_states.dtype) @ w_o.T
    dist.all_reduce(out, group=tp_group)
    return out


def not_causal(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    tp_group: Group,
    cp_group: Group,
) -> Tensor:
    """Every position sees every other."""
    del causal
    return _reference(hidden_states, w_qkv, w_o, num_heads, softmax_scale, False, tp_group, cp_group)


def half_the_scale(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    tp_group: Group,
    cp_group: Group,
) -> Tensor:
    """Half the default scale, whatever was asked for."""
    del softmax_scale
    scale = 0.5 * (hidden_states.shape[2] // num_heads) ** -0.5
    return _reference(hidden_states, w_qkv, w_o, num_heads, scale, causal, tp_group, cp_group)


def averaged(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    tp_group: Group,
    cp_group: Group,
) -> Tensor:
    """The mean of the pair's contributions."""
    out = _reference(hidden_states, w_qkv, w_o, num_heads, softmax_scale, causal, tp_group, cp_group)
    return out / dist.get_world_size(tp_group)


HONEST = {"hidden_states_gathered": hidden_states_gathered, "heads_exchanged": heads_exchanged}
MUTANTS = {
    "first_positions_unseen": first_positions_unseen,
    "not_causal": not_causal,
    "half_the_scale": half_the_scale,
    "averaged": averaged,
}
