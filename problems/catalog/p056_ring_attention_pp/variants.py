"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p056_ring_attention_pp.reference import solution as _reference
from problems.rank_parts import all_gathered

Group = dist.ProcessGroup


def _gathered(tensor: Tensor, group: Group) -> Tensor:
    """All context ranks' positions (dimension 1)."""
    return torch.cat(all_gathered(tensor, group), dim=1)


def _layer(
    tokens: Tensor, w_qkv: Tensor, w_o: Tensor, heads: int, scale: float | None, *, first: int, unseen: int = 0
) -> Tensor:
    """The layer in float32 over the whole sequence `tokens`, from position `first` on; `unseen` ones are forgotten."""
    batch, length, _ = tokens.shape
    q, k, v = (tokens.float() @ w_qkv.float().T).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    positions = torch.arange(length)
    is_hidden = (positions > positions.unsqueeze(1)) | (positions < unseen)
    weights = scores.masked_fill(is_hidden, -torch.inf).softmax(dim=-1).nan_to_num(0.0)
    return ((weights @ v).transpose(1, 2).flatten(2) @ w_o.float().T)[:, first:]


def _input(hidden_states: Tensor, pp_group: Group) -> Tensor:
    """The local positions of the stage's input."""
    if dist.get_rank(pp_group) == 0:
        return hidden_states
    arrived = torch.empty_like(hidden_states)
    dist.broadcast(arrived, group_src=0, group=pp_group)
    return arrived


def _pipeline(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    heads: int,
    scale: float | None,
    cp: Group,
    pp: Group,
    unseen: int,
) -> Tensor:
    """Both stages with gathered inputs and float32 inside, `unseen` positions forgotten."""
    tokens = _gathered(_input(hidden_states, pp), cp)
    length = hidden_states.shape[1]
    first = dist.get_rank(cp) * length
    out = _layer(tokens, w_qkv, w_o, heads, scale, first=first, unseen=unseen)[:, :length].to(hidden_states.dtype)
    if dist.get_rank(pp) == 0:
        dist.broadcast(out.contiguous(), group_src=0, group=pp)
    return out


def hidden_states_gathered(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    cp_group: Group,
    pp_group: Group,
) -> Tensor:
    """Gathers hidden states, not keys and values, and computes in float32."""
    del causal
    return _pipeline(hidden_states, w_qkv, w_o, num_heads, softmax_scale, cp_group, pp_group, 0)


def first_stage_everywhere(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    cp_group: Group,
    pp_group: Group,
) -> Tensor:
    """Every rank computes the first stage itself from its weights and all its inputs; only these travel."""
    del causal
    first_qkv, first_o = w_qkv.clone(), w_o.clone()
    for weight in (first_qkv, first_o):
        dist.broadcast(weight, group_src=0, group=pp_group)
    tokens = hidden_states.clone()
    dist.broadcast(tokens, group_src=0, group=pp_group)
    tokens = _gathered(tokens, cp_group)
    if dist.get_rank(pp_group) > 0:
        tokens = _layer(tokens, first_qkv, first_o, num_heads, softmax_scale, first=0).to(tokens.dtype)
    length = hidden_states.shape[1]
    out = _layer(tokens, w_qkv, w_o, num_heads, softmax_scale, first=dist.get_rank(cp_group) * length)
    return out[:, :length].to(hidden_states.dtype)


def first_positions_unseen(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    cp_group: Group,
    pp_group: Group,
) -> Tensor:
    """The first quarter of the sequence is forgotten, as when a ring stops too early."""
    del causal
    unseen = hidden_states.shape[1] * dist.get_world_size(cp_group) // 4
    return _pipeline(hidden_states, w_qkv, w_o, num_heads, softmax_scale, cp_group, pp_group, unseen)


def stages_apart(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    cp_group: Group,
    pp_group: Group,
) -> Tensor:
    """Every stage works on its own hidden states."""
    del pp_group
    return _reference(hidden_states, w_qkv, w_o, num_heads, softmax_scale, causal, cp_group, None)


def not_causal(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    cp_group: Group,
    pp_group: Group,
) -> Tensor:
    """Every position sees every other."""
    del causal
    return _reference(hidden_states, w_qkv, w_o, num_heads, softmax_scale, False, cp_group, pp_group)


def mean_of_values(
    hidden_states: Tensor,
    w_qkv: Tensor,
    w_o: Tensor,
    num_heads: int,
    softmax_scale: float | None,
    causal: bool,
    cp_group: Group,
    pp_group: Group,
) -> Tensor:
    """Attention as the mean of earlier values, without queries and keys."""
    del softmax_scale
    return _reference(hidden_states, w_qkv, w_o, num_heads, 0.0, causal, cp_group, pp_group)


HONEST = {"hidden_states_gathered": hidden_states_gathered, "first_stage_everywhere": first_stage_everywhere}
MUTANTS = {
    "first_positions_unseen": first_positions_unseen,
    "stages_apart": stages_apart,
    "not_causal": not_causal,
    "mean_of_values": mean_of_values,
}
