"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered


def _cut(out: Tensor, unpadded_dim_size: int | None, seq_dim: int = 1) -> Tensor:
    """Positions that are no padding."""
    length = unpadded_dim_size or 0
    is_cut = length % dist.get_world_size() != 0
    return out.narrow(seq_dim, 0, min(length, out.shape[seq_dim])) if is_cut else out


def _whole(qkv_tensor: Tensor, seq_dim: int = 1) -> Tensor:
    """All ranks' positions, with all features in the last dimension."""
    return torch.cat(all_gathered(qkv_tensor), dim=seq_dim)


def _own(part: Tensor) -> Tensor:
    return part.chunk(dist.get_world_size(), dim=-1)[dist.get_rank()]


def gathered(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Gathers everything and keeps the own parts."""
    del group
    parts = [_own(part) for part in _whole(qkv_tensor, seq_dim).chunk(3, dim=2)]
    out = _cut(torch.cat(parts, dim=2), unpadded_dim_size, seq_dim)
    return out if restore_shape else out.unflatten(2, (3, -1))


def one_by_one(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Three exchanges: queries, keys, values."""
    del group
    parts = []
    for part in qkv_tensor.chunk(3, dim=2):
        sent = torch.stack(part.chunk(dist.get_world_size(), dim=2))
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        parts.append(torch.cat(received.unbind(), dim=seq_dim))
    out = _cut(torch.cat(parts, dim=2), unpadded_dim_size, seq_dim)
    return out if restore_shape else out.unflatten(2, (3, -1))


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


def along_second(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Takes the second dimension for positions, as it is in timed calls."""
    del seq_dim
    return gathered(qkv_tensor, 1, group, unpadded_dim_size, restore_shape)


def last_share_cut(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Cuts padding off the last rank's positions alone."""
    most = (dist.get_world_size() - 1) * qkv_tensor.shape[seq_dim]
    length = max(unpadded_dim_size, most + 1) if unpadded_dim_size else None
    return gathered(qkv_tensor, seq_dim, group, length, restore_shape)


def cut_to_any_number(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Cuts to whatever number it is given, a multiple of W too."""
    out = gathered(qkv_tensor, seq_dim, group, None, restore_shape)
    return out.narrow(seq_dim, 0, unpadded_dim_size) if unpadded_dim_size else out


def cut_to_zero(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Takes None alone for nothing to cut."""
    out = gathered(qkv_tensor, seq_dim, group, unpadded_dim_size, restore_shape)
    return out if unpadded_dim_size != 0 else out.narrow(seq_dim, 0, 0)


def in_words(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Sends words of 8 bytes, whole numbers of which a part has to have."""
    parts = [part.contiguous().view(torch.int64) for part in qkv_tensor.chunk(3 * dist.get_world_size(), dim=2)]
    words = gathered(torch.cat(parts, dim=2), seq_dim, group, unpadded_dim_size, restore_shape)
    return words.view(qkv_tensor.dtype)


def senders_by_reciprocal(
    qkv_tensor: Tensor, seq_dim: int, group: None, unpadded_dim_size: int | None, restore_shape: bool
) -> Tensor:
    """Finds a position's sender by a product with the reciprocal of T in float32, which may be one too few."""
    del group
    every = torch.stack([part.movedim(seq_dim, 0) for part in all_gathered(qkv_tensor)])
    length = every.shape[1]
    position = torch.arange(len(every) * length)
    sender = (position.float() * torch.tensor(1 / length, dtype=torch.float32)).long()
    # What lies behind a sender's last position is not its successor's first.
    whole = every[sender, (position - sender * length).clamp(max=length - 1)].movedim(0, seq_dim)
    out = _cut(torch.cat([_own(part) for part in whole.chunk(3, dim=2)], dim=2), unpadded_dim_size, seq_dim)
    return out.contiguous() if restore_shape else out.unflatten(2, (3, -1)).contiguous()


HONEST = {"gathered": gathered, "one_by_one": one_by_one}
MUTANTS = {"cut_as_one": cut_as_one, "interleaved": interleaved, "keys_for_values": keys_for_values}
NARROW = {
    "positions_first": along_second,
    "mostly_padding": last_share_cut,
    "multiple_of_ranks": cut_to_any_number,
    "zero_for_none": cut_to_zero,
    "other_extents": in_words,
    "awkward_lengths": senders_by_reciprocal,
}
