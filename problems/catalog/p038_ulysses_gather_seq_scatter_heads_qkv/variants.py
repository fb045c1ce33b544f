"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.rank_parts import all_gathered


def _cut(out: Tensor, unpadded_dim_size: int | None) -> Tensor:
    """Positions (dimension 1) that are no padding."""
    length = unpadded_dim_size or 0
    return out[:, :length] if length % dist.get_world_size() else out


def _whole(qkv_tensor: Tensor) -> Tensor:
    """All ranks' positions (B, S, qkv)."""
    return torch.cat(all_gathered(qkv_tensor), dim=1)


def _own(part: Tensor) -> Tensor:
    return part.chunk(dist.get_world_size(), dim=-1)[dist.get_rank()]


def gathered(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Gathers everything and keeps the own parts."""
    del seq_dim, group, restore_shape
    return _cut(torch.cat([_own(part) for part in _whole(qkv_tensor).chunk(3, dim=2)], dim=2), unpadded_dim_size)


def one_by_one(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Three exchanges: queries, keys, values."""
    del group, restore_shape
    parts = []
    for part in qkv_tensor.chunk(3, dim=2):
        sent = torch.stack(part.chunk(dist.get_world_size(), dim=2))
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        parts.append(torch.cat(received.unbind(), dim=seq_dim))
    return _cut(torch.cat(parts, dim=2), unpadded_dim_size)


def cut_as_one(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Cuts the fused dimension into W pieces: the first ranks get queries alone."""
    del seq_dim, group, restore_shape
    return _cut(_own(_whole(qkv_tensor)), unpadded_dim_size)


def interleaved(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """The right elements with query, key and value alternating in the last dimension."""
    out = gathered(qkv_tensor, seq_dim, group, unpadded_dim_size, restore_shape)
    return out.unflatten(-1, (3, -1)).transpose(-1, -2).flatten(-2)


def keys_for_values(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Keys where values belong."""
    out = gathered(qkv_tensor, seq_dim, group, unpadded_dim_size, restore_shape)
    queries, keys, _values = out.chunk(3, dim=2)
    return torch.cat([queries, keys, keys], dim=2)


HONEST = {"gathered": gathered, "one_by_one": one_by_one}
MUTANTS = {"cut_as_one": cut_as_one, "interleaved": interleaved, "keys_for_values": keys_for_values}
