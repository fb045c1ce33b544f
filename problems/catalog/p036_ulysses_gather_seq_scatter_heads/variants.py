"""Programs that must pass and programs that must fail."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered


def _cut(out: Tensor, unpadded_dim_size: int, seq_dim: int = 1) -> Tensor:
    """Positions that are no padding."""
    length = out.shape[seq_dim]
    return out.narrow(seq_dim, 0, min(length, unpadded_dim_size)) if unpadded_dim_size % dist.get_world_size() else out


def _own_heads(x: Tensor, head_dim: int = 2) -> Tensor:
    return x.chunk(dist.get_world_size(), dim=head_dim)[dist.get_rank()]


def gathered(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Gathers everything and keeps the own heads."""
    del group
    out = torch.cat([_own_heads(part, head_dim) for part in all_gathered(x)], dim=seq_dim)
    return _cut(out, unpadded_dim_size, seq_dim)


def scattered(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """One scatter from each rank in turn."""
    del group
    pieces = [piece.contiguous() for piece in x.chunk(dist.get_world_size(), dim=head_dim)]
    received = [torch.empty_like(piece) for piece in pieces]
    for rank, part in enumerate(received):
        dist.scatter(part, pieces if rank == dist.get_rank() else None, src=rank)
    return _cut(torch.cat(received, dim=seq_dim), unpadded_dim_size, seq_dim)


def head_by_head(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """One exchange for each head that a rank gets."""
    del group
    local = x.shape[head_dim] // dist.get_world_size()
    heads = []
    for place in range(local):
        sent = x.movedim(head_dim, 0)[place::local].contiguous()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        heads.append(torch.cat(received.unbind(), dim=seq_dim - (head_dim < seq_dim)))
    return _cut(torch.stack(heads, dim=head_dim), unpadded_dim_size, seq_dim)


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


def along_second_and_third(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Takes the second dimension for positions and the third for heads, as they are in timed calls."""
    del seq_dim, head_dim
    return gathered(x, 1, 2, group, unpadded_dim_size)


def last_share_cut(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Cuts padding off the last rank's positions alone."""
    del group
    shares = [_own_heads(part, head_dim) for part in all_gathered(x)]
    most = (len(shares) - 1) * x.shape[seq_dim]
    return _cut(torch.cat(shares, dim=seq_dim), max(unpadded_dim_size, most + 1) if unpadded_dim_size else 0, seq_dim)


def cut_to_any_number(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Cuts to whatever number it is given, a multiple of W too."""
    out = gathered(x, seq_dim, head_dim, group, 0)
    return out.narrow(seq_dim, 0, unpadded_dim_size) if unpadded_dim_size else out


def squeezed(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Drops dimensions of length one, as that of the only head of a rank."""
    return gathered(x, seq_dim, head_dim, group, unpadded_dim_size).squeeze()


def senders_by_reciprocal(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Finds a position's sender by a product with the reciprocal of T in float32, which may be one too few."""
    del group
    every = torch.stack([_own_heads(part, head_dim).movedim(seq_dim, 0) for part in all_gathered(x)])
    length = every.shape[1]
    position = torch.arange(len(every) * length)
    sender = (position.float() * torch.tensor(1 / length, dtype=torch.float32)).long()
    # What lies behind a sender's last position is not its successor's first.
    place = (position - sender * length).clamp(max=length - 1)
    return _cut(every[sender, place].movedim(0, seq_dim).contiguous(), unpadded_dim_size, seq_dim)


def padding_by_its_front(x: Tensor, seq_dim: int, head_dim: int, group: None, unpadded_dim_size: int) -> Tensor:
    """Takes what a head has at a position for padding where its first eight channels are zero."""
    is_padding = (x[..., :8] == 0).all(dim=-1, keepdim=True)
    return gathered(x.masked_fill(is_padding, 0), seq_dim, head_dim, group, unpadded_dim_size)


HONEST = {"gathered": gathered, "scattered": scattered, "head_by_head": head_by_head}
MUTANTS = {
    "positions_interleaved": positions_interleaved,
    "heads_strided": heads_strided,
    "padding_cut_in_front": padding_cut_in_front,
}
NARROW = {
    "heads_first": along_second_and_third,
    "positions_first": along_second_and_third,
    "equal_extents": along_second_and_third,
    "mostly_padding": last_share_cut,
    "multiple_of_ranks": cut_to_any_number,
    "other_extents": squeezed,
    "awkward_lengths": senders_by_reciprocal,
    "zeros_in_front": padding_by_its_front,
}
