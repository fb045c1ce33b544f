"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p055_ring_attention_tp.reference import solution as _reference
from problems.families.attention_programs import none_for_an_odd_one_out, softmax_from_zero
from problems.families.rank_parts import all_gathered

Group = dist.ProcessGroup
Softmax = Callable[[Tensor], Tensor]


class _Arguments(NamedTuple):
    """What `solution` is called with."""

    hidden_states: Tensor
    w_qkv: Tensor
    w_o: Tensor
    num_heads: int
    softmax_scale: float | None
    causal: bool
    tp_group: Group
    cp_group: Group


def _gathered(tensor: Tensor, group: Group) -> Tensor:
    """All context ranks' positions (dimension 1)."""
    return torch.cat(all_gathered(tensor, group), dim=1)


def _softmax(scores: Tensor) -> Tensor:
    """Weights of keys; none where a position sees no key."""
    return scores.softmax(dim=-1).nan_to_num(0.0)


def _context(
    hidden: Tensor,
    w_qkv: Tensor,
    heads: int,
    scale: float | None,
    *,
    causal: bool,
    own: slice,
    unseen: int = 0,
    softmax: Softmax = _softmax,
) -> Tensor:
    """Heads' results (B, S_local, features) in float32 at the positions `own`.

    `hidden` holds the whole sequence; the first `unseen` positions are hidden from everyone.
    """
    batch, length, _ = hidden.shape
    q, k, v = (hidden.float() @ w_qkv.float().T).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    positions = torch.arange(length)
    is_hidden = (causal & (positions > positions.unsqueeze(1))) | (positions < unseen)
    weights = softmax(scores.masked_fill(is_hidden, -torch.inf))
    return (weights @ v).transpose(1, 2).flatten(2)[:, own]


def _own_context(call: _Arguments, *, unseen_part: int = 0, softmax: Softmax = _softmax) -> Tensor:
    """The results of the rank's heads at its positions, from gathered hidden states.

    Where `unseen_part` is n, the first n-th of the sequence is hidden from everyone.
    """
    hidden = _gathered(call.hidden_states, call.cp_group)
    start = dist.get_rank(call.cp_group) * call.hidden_states.shape[1]
    own = slice(start, start + call.hidden_states.shape[1])
    unseen = hidden.shape[1] // unseen_part if unseen_part else 0
    heads = call.num_heads // dist.get_world_size(call.tp_group)
    return _context(
        hidden, call.w_qkv, heads, call.softmax_scale, causal=call.causal, own=own, unseen=unseen, softmax=softmax
    )


def maximum_from_zero(*arguments: Any) -> Tensor:
    """Starts the running maximum of scores at zero, so that no smaller one is found."""
    call = _Arguments(*arguments)
    out = _own_context(call, softmax=softmax_from_zero) @ call.w_o.float().T
    dist.all_reduce(out, group=call.tp_group)
    return out.to(call.hidden_states.dtype)


def hidden_states_gathered(*arguments: Any) -> Tensor:
    """Gathers hidden states, not keys and values, and computes in float32 throughout."""
    call = _Arguments(*arguments)
    out = _own_context(call) @ call.w_o.float().T
    dist.all_reduce(out, group=call.tp_group)
    return out.to(call.hidden_states.dtype)


def heads_exchanged(*arguments: Any) -> Tensor:
    """Gathers the pair's heads and weights and makes one product of them, rounding the heads first."""
    call = _Arguments(*arguments)
    heads = all_gathered(_own_context(call).to(call.hidden_states.dtype), call.tp_group)
    return torch.cat(heads, dim=2) @ torch.cat(all_gathered(call.w_o, call.tp_group), dim=1).T


def first_positions_unseen(*arguments: Any) -> Tensor:
    """The first quarter of the sequence is forgotten, as when a ring stops too early."""
    call = _Arguments(*arguments)
    out = _own_context(call, unseen_part=4).to(call.hidden_states.dtype) @ call.w_o.T
    dist.all_reduce(out, group=call.tp_group)
    return out


def not_causal(*arguments: Any) -> Tensor:
    """Every position sees every other."""
    return _reference(*_Arguments(*arguments)._replace(causal=False))


def half_the_scale(*arguments: Any) -> Tensor:
    """Half the default scale, whatever was asked for."""
    call = _Arguments(*arguments)
    scale = 0.5 * (call.hidden_states.shape[2] // call.num_heads) ** -0.5
    return _reference(*call._replace(softmax_scale=scale))


def averaged(*arguments: Any) -> Tensor:
    """The mean of the pair's contributions."""
    return _reference(*arguments) / dist.get_world_size(_Arguments(*arguments).tp_group)


def bounded_scale(*arguments: Any) -> Tensor:
    """Takes a scale for no smaller than half the default."""
    call = _Arguments(*arguments)
    default = (call.hidden_states.shape[2] // call.num_heads) ** -0.5
    scale = default if call.softmax_scale is None else call.softmax_scale
    return _reference(*call._replace(softmax_scale=max(scale, default / 2)))


HONEST = {"hidden_states_gathered": hidden_states_gathered, "heads_exchanged": heads_exchanged}
MUTANTS = {
    "first_positions_unseen": first_positions_unseen,
    "not_causal": not_causal,
    "half_the_scale": half_the_scale,
    "averaged": averaged,
}
NARROW = {
    "other_length": none_for_an_odd_one_out(hidden_states_gathered),
    "one_position": none_for_an_odd_one_out(hidden_states_gathered),
    "flat_scale": bounded_scale,
    "negative_scores": maximum_from_zero,
}
