"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.rank_parts import all_gathered


def _cut(out: Tensor, unpadded_dim_size: int) -> Tensor:
    """Positions (dimension 1) that are no padding."""
    return out[:, :unpadded_dim_size] if unpadded_dim_size % dist.get_world_size() else out


def _own_heads(x: Tensor) -> Tensor:
    return x.chunk(dist.get_world_size(), dim=2)[dist.get_rank()]


def gathered(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Gathers everything and keeps the own heads."""
    del head_dim, group
    out = torch.cat([_own_heads(part) for part in all_gathered(x)], dim=seq_dim)
    return _cut(out, unpadded_dim_size)


def scattered(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """One scatter from each rank in turn."""
    del group
    pieces = [piece.contiguous() for piece in x.chunk(dist.get_world_size(), dim=head_dim)]
    received = [torch.empty_like(piece) for piece in pieces]
    for rank, part in enumerate(received):
        dist.scatter(part, pieces if rank == dist.get_rank() else None, src=rank)
    return _cut(torch.cat(received, dim=seq_dim), unpadded_dim_size)


def head_by_head(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """One exchange for each head that a rank gets."""
    del group
    local = x.shape[head_dim] // dist.get_world_size()
    heads = []
    for place in range(local):
        sent = x[:, :, place::local].movedim(head_dim, 0).contiguous()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        heads.append(torch.cat(received.unbind(), dim=seq_dim))
    return _cut(torch.stack(heads, dim=head_dim), unpadded_dim_size)


def positions_interleaved(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Position t of every shard before position t + 1 of any."""
    del seq_dim, head_dim, group
    out = torch.stack([_own_heads(part) for part in all_gathered(x)], dim=2).flatten(1, 2)
    return _cut(out, unpadded_dim_size)


def heads_strided(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Every W-th head in place of neighbouring ones."""
    del head_dim, group
    world_size = dist.get_world_size()
    out = torch.cat([part[:, :, dist.get_rank() :: world_size] for part in all_gathered(x)], dim=seq_dim)
    return _cut(out, unpadded_dim_size)


def padding_cut_in_front(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Drops the first positions, at least one of them, and makes up for the length at the end."""
    out = gathered(x, seq_dim, head_dim, group, 0)
    length = _cut(out, unpadded_dim_size).shape[seq_dim]
    return out.roll(-max(1, out.shape[seq_dim] - length), dims=seq_dim)[:, :length]


HONEST = {"gathered": gathered, "scattered": scattered, "head_by_head": head_by_head}
MUTANTS = {
    "positions_interleaved": positions_interleaved,
    "heads_strided": heads_strided,
    "padding_cut_in_front": padding_cut_in_front,
}
