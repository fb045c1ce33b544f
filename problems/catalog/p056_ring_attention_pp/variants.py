"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p056_ring_attention_pp.reference import solution as _reference
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
    cp_group: Group
    pp_group: Group | None


def _gathered(tensor: Tensor, group: Group) -> Tensor:
    """All context ranks' positions (dimension 1)."""
    return torch.cat(all_gathered(tensor, group), dim=1)


def _softmax(scores: Tensor) -> Tensor:
    """Weights of keys; none where a position sees no key."""
    return scores.softmax(dim=-1).nan_to_num(0.0)


def _layer(
    call: _Arguments,
    tokens: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    *,
    first: int,
    unseen: int = 0,
    softmax: Softmax = _softmax,
) -> Tensor:
    """The layer in float32 over the whole sequence `tokens`, from position `first` on; `unseen` ones are forgotten."""
    heads, scale = call.num_heads, call.softmax_scale
    batch, length, _ = tokens.shape
    q, k, v = (tokens.float() @ w_qkv.float().T).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    positions = torch.arange(length)
    is_hidden = (call.causal & (positions > positions.unsqueeze(1))) | (positions < unseen)
    weights = softmax(scores.masked_fill(is_hidden, -torch.inf))
    return ((weights @ v).transpose(1, 2).flatten(2) @ w_o.float().T)[:, first:]


def _input(hidden_states: Tensor, pp_group: Group | None) -> Tensor:
    """The local positions of the stage's input."""
    if dist.get_rank(pp_group) == 0:
        return hidden_states
    arrived = torch.empty_like(hidden_states)
    dist.broadcast(arrived, group_src=0, group=pp_group)
    return arrived


def _pipeline(call: _Arguments, *, unseen: int = 0, softmax: Softmax = _softmax) -> Tensor:
    """Both stages with gathered inputs and float32 inside, `unseen` positions forgotten."""
    tokens = _gathered(_input(call.hidden_states, call.pp_group), call.cp_group)
    out = _own_positions(call, tokens, unseen=unseen, softmax=softmax)
    if dist.get_rank(call.pp_group) == 0:
        dist.broadcast(out.contiguous(), group_src=0, group=call.pp_group)
    return out


def _own_positions(call: _Arguments, tokens: Tensor, *, unseen: int = 0, softmax: Softmax = _softmax) -> Tensor:
    """What the rank's layer makes of the whole sequence `tokens` at the rank's positions."""
    length = call.hidden_states.shape[1]
    first = dist.get_rank(call.cp_group) * length
    out = _layer(call, tokens, call.w_qkv, call.w_o, first=first, unseen=unseen, softmax=softmax)
    return out[:, :length].to(call.hidden_states.dtype)


def maximum_from_zero(*arguments: Any) -> Tensor:
    """Starts the running maximum of scores at zero, so that no smaller one is found."""
    return _pipeline(_Arguments(*arguments), softmax=softmax_from_zero)


def hidden_states_gathered(*arguments: Any) -> Tensor:
    """Gathers hidden states, not keys and values, and computes in float32."""
    return _pipeline(_Arguments(*arguments))


def first_stage_everywhere(*arguments: Any) -> Tensor:
    """Every rank computes the first stage itself from its weights and all its inputs; only these travel."""
    call = _Arguments(*arguments)
    first_qkv, first_o, tokens = call.w_qkv.clone(), call.w_o.clone(), call.hidden_states.clone()
    for tensor in (first_qkv, first_o, tokens):
        dist.broadcast(tensor, group_src=0, group=call.pp_group)
    tokens = _gathered(tokens, call.cp_group)
    if dist.get_rank(call.pp_group) > 0:
        tokens = _layer(call, tokens, first_qkv, first_o, first=0).to(tokens.dtype)
    return _own_positions(call, tokens)


def first_positions_unseen(*arguments: Any) -> Tensor:
    """The first quarter of the sequence is forgotten, as when a ring stops too early."""
    call = _Arguments(*arguments)
    return _pipeline(call, unseen=call.hidden_states.shape[1] * dist.get_world_size(call.cp_group) // 4)


def stages_apart(*arguments: Any) -> Tensor:
    """Every stage works on its own hidden states."""
    return _reference(*_Arguments(*arguments)._replace(pp_group=None))


def not_causal(*arguments: Any) -> Tensor:
    """Every position sees every other."""
    return _reference(*_Arguments(*arguments)._replace(causal=False))


def mean_of_values(*arguments: Any) -> Tensor:
    """Attention as the mean of earlier values, without queries and keys."""
    return _reference(*_Arguments(*arguments)._replace(softmax_scale=0.0))


def bounded_scale(*arguments: Any) -> Tensor:
    """Takes a scale for no smaller than half the default."""
    call = _Arguments(*arguments)
    default = (call.hidden_states.shape[2] // call.num_heads) ** -0.5
    scale = default if call.softmax_scale is None else call.softmax_scale
    return _reference(*call._replace(softmax_scale=max(scale, default / 2)))


HONEST = {"hidden_states_gathered": hidden_states_gathered, "first_stage_everywhere": first_stage_everywhere}
MUTANTS = {
    "first_positions_unseen": first_positions_unseen,
    "stages_apart": stages_apart,
    "not_causal": not_causal,
    "mean_of_values": mean_of_values,
}
NARROW = {
    "other_length": none_for_an_odd_one_out(hidden_states_gathered),
    "one_position": none_for_an_odd_one_out(hidden_states_gathered),
    "flat_scale": bounded_scale,
    "negative_scores": maximum_from_zero,
}
